
// -- what the visitor does -----------------------------------------------------------------------
const setQuery = (token, pin) => {
  if (pin) { pinned = token; hovered = null; fetchOverview(); } else if (!run) hovered = token;
  later();
};
const setBlock = (value) => {
  block = Math.max(0, Math.min(facts.blocks - 1, value));
  $('.block output').textContent = block;
  drawAll();
};
const setHead = (value) => { head = value; headMenu.value = String(value); drawAll(); };
// Browsers cut a click's place to whole CSS pixels, which on a zoomed page may lie in the neighbour of
// the patch pointed at; where the pointer was let go, they tell exactly.
let lifted = null;
board.addEventListener('pointerup', (event) => { lifted = event; });
const exact = (click) => {
  const near = lifted && Math.hypot(lifted.clientX - click.clientX, lifted.clientY - click.clientY) < 2;
  return near ? lifted : click;
};
const tokenAt = (event) => {
  const box = photo.getBoundingClientRect(), [h, w] = facts.grid;
  const [l, t, r, b] = onStage(box.width, box.height);
  const x = event.clientX - box.left, y = event.clientY - box.top;
  if (x < 0 || y < 0 || x >= box.width || y >= box.height) return null;
  const column = Math.floor((x - l) / (r - l) * w), line = Math.floor((y - t) / (b - t) * h);
  return column < 0 || line < 0 || column >= w || line >= h ? null : P + line * w + column;
};
photo.addEventListener('pointermove', (event) => { if (facts) setQuery(tokenAt(event), false); });
photo.addEventListener('pointerleave', () => { if (facts) setQuery(null, false); });
photo.addEventListener('click', (event) => {
  const token = facts && tokenAt(exact(event));
  if (token !== null && token !== undefined) setQuery(token, true);
});
const move = (down, right) => {
  const [h, w] = facts.grid;
  if (pinned < P) {  // from a chip: along the chips, and down into the photo
    if (down > 0) setQuery(P, true);
    else if (right) setQuery(Math.max(facts.start === DECISION ? DECISION : 0, Math.min(P, pinned + right)), true);
    return;
  }
  const cell = pinned - P, line = Math.floor(cell / w) + down, column = (cell % w) + right;
  if (line < 0 && P) { setQuery(P - 1, true); return; }
  if (line < 0 || line >= h || column < 0 || column >= w) return;
  setQuery(P + line * w + column, true);
};
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const nextHead = (step) => {
  const all = [...headMenu.options].filter((option) => !option.disabled).map((option) => option.value);
  const at = (all.indexOf(String(head)) + step + all.length) % all.length;
  setHead(/^\d+$/.test(all[at]) ? Number(all[at]) : all[at]);
};
board.addEventListener('keydown', (event) => {
  if (!facts || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = ['SELECT', 'INPUT'].includes(event.target.tagName);
  const arrow = ARROWS[event.key];
  if (arrow && event.target === photo) move(...arrow);
  else if (arrow && event.target === sheet) {
    const now = typeof head === 'number' ? head : 0;
    setHead(Math.max(0, Math.min(facts.heads - 1, now + arrow[1])));
    setBlock(block + arrow[0]);
  } else if (!typing && (event.key === '+' || event.key === '=')) setBlock(block + 1);
  else if (!typing && (event.key === '-' || event.key === '−')) setBlock(block - 1);
  else if (!typing && event.key.toLowerCase() === 'h') nextHead(event.shiftKey ? -1 : 1);
  else return;
  event.preventDefault();
});
sheet.addEventListener('click', (event) => {
  if (!facts) return;
  const m = layout(), box = sheet.getBoundingClientRect(), k = m.width / box.width, at = exact(event);
  const column = Math.floor(((at.clientX - box.left) * k - m.left) / (m.cell + m.gap));
  const line = Math.floor(((at.clientY - box.top) * k - m.top) / (m.tall + m.gap));
  if (line < 0 || line >= facts.blocks || column >= facts.heads) return;
  open(line, column < 0 ? 'mean' : column);
});
const open = (line, wanted) => {  // chosen in a chart: shown large
  head = wanted;
  headMenu.value = String(head);
  setBlock(line);
  if (photo.getBoundingClientRect().bottom < 80 || photo.getBoundingClientRect().top > innerHeight - 80) {
    $('.left').scrollIntoView({ block: 'start', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
  }
};
chips.addEventListener('click', (event) => {
  const chip = event.target.closest('button');
  if (chip) setQuery(Number(chip.dataset.token), true);
});
chips.addEventListener('pointerover', (event) => {
  const chip = event.target.closest('button');
  if (chip && event.pointerType === 'mouse') setQuery(Number(chip.dataset.token), false);
});
chips.addEventListener('pointerleave', () => { if (facts) setQuery(null, false); });
const setWho = (value) => {
  who = value;
  for (const choice of root.querySelectorAll('.switch button')) {
    const on = (choice.dataset.who === '1') === who;
    choice.setAttribute('aria-checked', String(on));
    choice.tabIndex = on ? 0 : -1;
  }
  if (facts) later();
};
$('.switch').addEventListener('click', (event) => { if (event.target.dataset.who) setWho(event.target.dataset.who === '1'); });
$('.switch').addEventListener('keydown', (event) => {
  if (!ARROWS[event.key]) return;
  setWho(!who);
  root.querySelector('.switch [aria-checked=true]').focus();
  event.preventDefault(); event.stopPropagation();
});
for (const button of root.querySelectorAll('.block button')) {
  button.addEventListener('click', () => setBlock(block + Number(button.dataset.step)));
}
headMenu.addEventListener('change', () => setHead(/^\d+$/.test(headMenu.value) ? Number(headMenu.value) : headMenu.value));
extentMenu.addEventListener('change', drawAll);
opacity.addEventListener('input', later);
$('.full').addEventListener('click', () => {
  if (document.fullscreenElement) document.exitFullscreen(); else host.requestFullscreen?.();
});
