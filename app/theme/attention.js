// The Attention board: what it knows, and what it asks the server; the other attention_*.js follow,
// all one script. Runs once a mount inside Gradio's HTML component, which gives `element`,
// `props`, `watch`, `trigger` and `server`; CSS holds the style sheet. Everything stands in a
// shadow root, which Gradio's re-rendering leaves alone; texts are only ever set as textContent.
const host = element.querySelector('.vs-board') || element;
const root = host.shadowRoot || host.attachShadow({ mode: 'open' });
root.innerHTML = `<style>${CSS}</style>
<p class="message" role="status" hidden></p>
<div class="board" hidden>
  <section class="left">
    <div class="tools">
      <span class="switch" role="radiogroup"><button type="button" role="radio" data-who="0"></button><button type="button" role="radio" data-who="1"></button></span>
      <label class="block"><span></span><button type="button" data-step="-1">−</button><output></output><button type="button" data-step="1">+</button></label>
      <label class="head"><span></span><select></select></label>
    </div>
    <div class="chips"></div>
    <div class="stage"><canvas class="photo" tabindex="0" role="application" aria-describedby="line"></canvas></div>
    <div class="scale"><canvas class="bar"></canvas><p><span>0</span><span class="note"></span><span class="top"></span></p></div>
    <p class="line" id="line"></p>
    <p class="quiet" aria-live="polite"></p>
    <div class="tools">
      <label class="extent"><span></span><select><option value="own"></option><option value="fixed"></option></select></label>
      <label class="opacity"><span></span><input type="range" min="0" max="100" value="60"></label>
      <button type="button" class="play"></button>
      <span class="films"><span></span><button type="button" data-kind="gif">GIF</button><button type="button" data-kind="webp">WebP</button><button type="button" data-kind="mp4">MP4</button></span>
      <button type="button" class="full"></button>
    </div>
    <p class="keys"></p>
  </section>
  <section class="right">
    <h3></h3><p class="sub"></p>
    <div class="sheet"><canvas class="grid" tabindex="0" role="application"></canvas></div>
  </section>
  <section class="dots" data-chart="distance"></section>
  <section class="dots" data-chart="entropy"></section>
</div>`;
const $ = (query) => root.querySelector(query);
const board = $('.board'), message = $('.message'), photo = $('canvas.photo'), sheet = $('canvas.grid');
const chips = $('.chips'), headMenu = $('.head select'), extentMenu = $('.extent select');
const opacity = $('.opacity input');

// -- numbers ---------------------------------------------------------------------------------
const HALF = new Float32Array(65536);  // every float16, so that decoding is a lookup
for (let bits = 0; bits < 65536; bits++) {
  const sign = bits & 0x8000 ? -1 : 1, power = (bits >> 10) & 31, rest = bits & 1023;
  HALF[bits] = sign * (power ? 2 ** (power - 15) * (1 + rest / 1024) : 2 ** -24 * rest);
}
const unpack = (text) => {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Uint16Array(bytes.buffer);
};

// -- state -----------------------------------------------------------------------------------
const DECISION = -1;
let facts = null, texts = {}, colours = null, picture = null, N = 0, P = 0;
let rows = new Map();     // block → planes × N × N, where a block travels whole
let single = new Map();   // "block token who" → planes × N, where it does not
let deciding = new Map(); // block → the rollout of what decides (N), where that is no token
let overview = null, overviewOf = null, common = 0;  // blocks × heads × N of the pinned token
let pinned = 0, hovered = null, block = 0, head = 'mean', who = false;
let asking = new Set(), renewing = false, readySince = 0, frame = 0, quiet = 0;
let run = null;  // while the blocks are played through: one token's rows in all blocks, their limit
const query = () => (run || hovered === null ? pinned : hovered);

const fill = (key, values = {}) =>
  (texts[key] || '').replace(/\{(\w+)\}/g, (all, name) => (name in values ? values[name] : all));
const percent = (share) => {
  const p = 100 * share;
  return `${p !== 0 && p < 0.01 ? '<0.01' : p < 1 ? p.toFixed(2) : p < 10 ? p.toFixed(1) : p.toFixed(0)}\u00a0%`;
};
const tokenName = (token) => {
  if (token === DECISION) return fill('attention_decider');
  if (token < P) return facts.prefix[token] || `${token}`;
  const cell = token - P, columns = facts.grid[1];
  return fill('attention_patch', { row: Math.floor(cell / columns) + 1, column: (cell % columns) + 1 });
};
const headName = () => (head === 'mean' ? fill('attention_mean')
  : head === 'rolled' ? fill('attention_rolled', { block }) : fill('attention_head_n', { head }));

// The chosen token's numbers (N) as Float32Array, or null while they are on their way.
const row = () => {
  if (run) return run.rows.subarray(block * N, block * N + N);
  const token = query(), H = facts.heads;
  if (token === DECISION) {
    if (who || !facts.decides) return null;
    if (head === 'rolled') {
      const rolled = deciding.get(block);
      return rolled ? Float32Array.from(rolled, (bits) => HALF[bits]) : null;
    }
    if (overviewOf !== DECISION) return null;
    return gather(overview, block * H * N, N, 1);
  }
  const whole = facts.whole ? rows.get(block) : null;
  if (whole) return gather(whole, who ? token : token * N, N * N, who ? N : 1);
  const own = facts.whole ? null : single.get(`${block} ${token} ${who}`);
  return own ? gather(own, 0, N, 1) : null;
};
// One head of planes that lie `plane` apart, or the mean of them all; `step` between numbers.
const gather = (data, start, plane, step) => {
  const out = new Float32Array(N), H = facts.heads;
  const planes = head === 'mean' ? [...Array(H).keys()] : [head === 'rolled' ? H : head];
  for (const p of planes) {
    for (let j = 0, at = start + p * plane; j < N; j++, at += step) out[j] += HALF[data[at]];
  }
  if (planes.length > 1) for (let j = 0; j < N; j++) out[j] /= planes.length;
  return out;
};

// -- asking the server -------------------------------------------------------------------------
const ask = async (name, question, take) => {
  const key = facts.key, id = name + JSON.stringify(question);
  if (asking.has(id)) return;
  asking.add(id);
  let answer;
  try { answer = await server[name]({ key, ...question }); } catch { answer = undefined; }
  asking.delete(id);
  if (!facts || facts.key !== key) return;
  if (answer && answer.ok) { take(answer); later(); return; }
  if (answer && answer.error === 'busy') { setTimeout(later, 150); return; }
  // Not at once after they were made: a server short of memory would make them without end.
  if (answer && answer.error === 'expired' && Date.now() - readySince > 5000) { renew('attention_expired'); return; }
  say('attention_lost');
};
const fetchRows = () => {
  if (run) return;
  if (facts.whole) {
    if (!rows.has(block) || (facts.start === DECISION && facts.rolled && !deciding.has(block))) {
      const number = block;
      ask('attention_block', { block }, (answer) => {
        rows.set(number, unpack(answer.data));
        if (answer.decision) deciding.set(number, unpack(answer.decision));
      });
    }
    return;
  }
  // One question at a time: while the pointer moves on, only its latest place is asked next.
  const token = query() === DECISION ? 0 : query(), name = `${block} ${token} ${who}`, number = block;
  if (single.has(name) || [...asking].some((id) => id.startsWith('attention_token'))) return;
  ask('attention_token', { block, token, who }, (answer) => {
    single.set(name, unpack(answer.data));
    if (answer.decision) deciding.set(number, unpack(answer.decision));
    if (single.size > 400) single.delete(single.keys().next().value);
  });
};
const fetchOverview = async () => {
  const token = pinned, key = facts.key, size = facts.heads * N;
  if (overviewOf === token) return;
  const step = Math.max(1, Math.floor(1e6 / size));
  const data = new Uint16Array(facts.blocks * size);
  let left = Math.ceil(facts.blocks / step);
  for (let first = 0; first < facts.blocks; first += step) {
    const last = Math.min(facts.blocks, first + step) - 1;
    ask('attention_grid', { token, first, last }, (answer) => {
      data.set(unpack(answer.data), first * size);
      if (--left || pinned !== token || facts.key !== key) return;
      overview = data; overviewOf = token;
      // The top of the common scale: a few maps have one patch with all, and would darken the rest.
      const patches = new Float32Array(data.length / N * (N - P));
      for (let at = 0, i = 0; at < data.length; at += N) for (let j = P; j < N; j++) patches[i++] = HALF[data[at + j]];
      common = patches.sort()[Math.floor(0.99 * (patches.length - 1))];
      drawSheet();
    });
  }
};
