// The Anatomy tab's watchman: asks for the tab's contents whenever they are out of date and the tab
// is seen, says in one line what is going on, and lets the arrow keys walk through the steps.
// Gradio gives `element`, `props`, `watch` and `trigger`.
const line = element.querySelector('.vs-anatomy-message') || element;
const area = () => document.getElementById('vs-anatomy');
const seen = () => element.isConnected && element.getClientRects().length > 0;
let stale = true;
const renew = () => { if (stale && seen()) { stale = false; trigger('renew', {}); } };
window.vitscopeAnatomy = () => { stale = true; renew(); };  // photo, model or language changed

const walk = (event) => {
  const typing = event.target.matches('input, select, textarea');  // they have arrow keys of their own
  if (typing || event.altKey || event.ctrlKey || event.metaKey) return;
  const name = { ArrowLeft: 'vs-anatomy-back', ArrowRight: 'vs-anatomy-next' }[event.key];
  if (!name) return;
  event.preventDefault();
  document.getElementById(name).click();
};
const dress = (box, value) => {
  box.classList.toggle('vs-working', value.state === 'loading');
  box.tabIndex = 0;
  box.setAttribute('role', 'group');
  box.setAttribute('aria-label', value.title || '');
  if (!box.dataset.walks) { box.dataset.walks = 'yes'; box.addEventListener('keydown', walk); }
};
const update = () => {
  const value = props.value;
  if (!value) return;
  line.textContent = value.message || '';
  line.className = `vs-anatomy-message ${value.state}`;
  line.hidden = value.state === 'ready';
  line.dataset.step = value.step || '';
  const box = area(), menu = document.querySelector('#vs-anatomy-steps .wrap');
  const chosen = menu && menu.querySelector('label.selected');
  if (chosen) menu.scrollLeft = chosen.offsetLeft - menu.offsetLeft - menu.clientWidth / 3;
  if (box) dress(box, value);
  else if (value.state === 'ready') setTimeout(update, 50);  // the area is mounted a moment later
};
watch('value', update);
new IntersectionObserver(renew).observe(element);
update();
renew();
