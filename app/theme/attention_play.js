
// -- playing through the blocks, on one scale for all of them ----------------------------------------
const PACE = 700;  // milliseconds a block
const calm = matchMedia('(prefers-reduced-motion: reduce)');  // then nothing moves by itself
const playButton = $('.play');
let player = 0;
const labelPlay = () => {
  playButton.textContent = fill(calm.matches ? 'attention_play_step' : run ? 'attention_stop' : 'attention_play');
  extentMenu.disabled = Boolean(run);  // a run has a scale of its own
  playButton.hidden = !facts || facts.blocks < 2;
};
const endRun = () => {
  clearInterval(player);
  if (!run) return;
  run = null;
  labelPlay();
  drawAll();
};
const asked = () => ({ token: pinned, head, who: who && pinned !== DECISION });
const startRun = () => {
  const now = asked();
  ask('attention_blocks', now, (answer) => {
    if (JSON.stringify(now) !== JSON.stringify(asked())) return;
    hovered = null;
    run = { rows: Float32Array.from(unpack(answer.data), (bits) => HALF[bits]), limit: answer.limit };
    labelPlay();
    setBlock(0);
    if (calm.matches) return;
    clearInterval(player);
    player = setInterval(() => {
      if (!host.isConnected || block >= facts.blocks - 1) endRun();
      else setBlock(block + 1);
    }, PACE);
  });
};
playButton.addEventListener('click', () => {
  if (!run) startRun();
  else if (calm.matches && block < facts.blocks - 1) setBlock(block + 1);
  else endRun();
});
calm.addEventListener('change', () => { if (facts) { endRun(); labelPlay(); } });
// Whatever else is done ends it; moving the pointer over the photo does not.
for (const kind of ['pointerdown', 'keydown', 'change', 'input']) {
  root.addEventListener(kind, (event) => { if (event.target !== playButton) endRun(); }, true);
}
for (const button of root.querySelectorAll('.films button')) {
  button.addEventListener('click', () => {
    if (facts) trigger('film', { key: facts.key, kind: button.dataset.kind, ...asked() });
  });
}
