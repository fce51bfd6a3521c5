// -- the board's start, and what Python says ------------------------------------------------------
const isShown = () => host.isConnected && host.getClientRects().length > 0;
let value = null;
const update = () => {
  value = props.value;
  renewing = false;
  if (value && value.texts) texts = value.texts;
  const state = value ? value.state : 'stale';
  if (state === 'stale') { if (isShown()) renew(); return; }  // else when the tab is opened again
  message.hidden = state === 'ready';
  message.className = `message ${state}`;
  if (state !== 'ready') {
    message.textContent = value.message || '';
    board.hidden = state !== 'loading' || !facts;
    board.classList.toggle('old', state === 'loading');
    if (state !== 'loading') facts = null;
    return;
  }
  board.hidden = false;
  board.classList.remove('old');
  const same = facts && facts.key === value.facts.key, before = facts;
  facts = value.facts;
  P = facts.prefix.length;
  N = P + facts.grid[0] * facts.grid[1];
  if (!same) {
    endRun();
    readySince = Date.now();
    rows = new Map(); single = new Map(); deciding = new Map(); asking = new Set();
    overview = null; overviewOf = null; common = 0; picture = null; hovered = null;
    pinned = facts.start;
    const alike = before && before.blocks === facts.blocks && before.heads === facts.heads;
    if (!alike) { block = facts.blocks - 1; head = 'mean'; }
    ask('attention_photo', {}, (answer) => {
      const image = new Image(), key = facts.key;
      image.onload = () => { if (facts && facts.key === key) { picture = image; later(); } };
      image.src = `data:image/jpeg;base64,${answer.picture}`;
      colours = answer.colours;
      drawAll();
    });
    fetchOverview();
  }
  const wanted = value.wanted || {};
  who = wanted.who ?? who;
  block = wanted.block ?? block;
  head = wanted.head ?? head;
  extentMenu.value = wanted.scale ?? extentMenu.value;
  opacity.value = 100 * (wanted.opacity ?? opacity.value / 100);
  if (wanted.token < N && (wanted.token >= 0 || facts.start === DECISION)) pinned = wanted.token;
  label();
  setWho(who);
  setBlock(block);
};
watch('value', update);
new ResizeObserver(() => drawAll()).observe(board);
new IntersectionObserver(() => {
  if (isShown() && (!value || value.state === 'stale')) renew();
  else if (facts) drawAll();
}).observe(host);
const dense = () => {  // moving to another screen or zooming changes the density without a resize
  if (!host.isConnected) return;
  if (facts) drawAll();
  matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`).addEventListener('change', dense, { once: true });
};
dense();
new MutationObserver(() => { if (facts) drawSheet(); }).observe(document.body, { attributes: true, attributeFilter: ['class'] });
host.view = () => facts && {  // what a link tells; scale and opacity only where they were changed
  block, head, token: pinned, who,
  ...(extentMenu.selectedIndex ? { scale: extentMenu.value } : {}),
  ...(opacity.value === opacity.defaultValue ? {} : { opacity: opacity.value / 100 }),
};
host.shown = () => shown && { ...shown, playing: Boolean(run) };
update();
