// The Anatomy tab's watchman: asks for the tab's contents as soon as it is seen, says in one line
// what is going on, and lets the arrow keys walk through the steps. Gradio gives `element`,
// `props`, `watch` and `trigger`.
const line = element.querySelector('.vs-anatomy-message') || element;
let asked = false;
const seen = () => element.isConnected && element.getClientRects().length > 0;
const renew = () => { if (!asked) { asked = true; trigger('renew', {}); } };
const area = () => document.getElementById('vs-anatomy');
const update = () => {
  const value = props.value, state = value ? value.state : 'stale';
  asked = false;
  if (state === 'stale') { if (seen()) renew(); return; }  // else when the tab is opened again
  line.textContent = value.message || '';
  line.className = `vs-anatomy-message ${state}`;
  line.hidden = state === 'ready';
  line.dataset.step = value.step || '';
  const box = area();
  if (!box) return;
  box.classList.toggle('vs-working', state === 'loading');
  box.tabIndex = 0;
  box.setAttribute('role', 'group');
  if (box.dataset.keys) return;
  box.dataset.keys = 'yes';
  box.addEventListener('keydown', (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches('input, select, textarea')) return;
    const name = { ArrowLeft: 'vs-anatomy-back', ArrowRight: 'vs-anatomy-next' }[event.key];
    if (!name) return;
    event.preventDefault();
    document.getElementById(name).click();
  });
};
watch('value', update);
new IntersectionObserver(() => {
  if (seen() && (!props.value || props.value.state === 'stale')) renew();
}).observe(line);
update();
