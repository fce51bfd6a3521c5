// The Attention board. Runs once a mount inside Gradio's HTML component, which gives `element`,
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

// -- drawing -----------------------------------------------------------------------------------
const cells = document.createElement('canvas');
// Values of patches → cells, one pixel each. veil: low ones let the photo through.
const paint = (values, start, limit, veil) => {
  const [h, w] = facts.grid;
  if (cells.width !== w || cells.height !== h) { cells.width = w; cells.height = h; }
  const context = cells.getContext('2d'), image = context.createImageData(w, h), top = colours.length - 1;
  for (let j = 0; j < h * w; j++) {
    const share = limit > 0 ? Math.min(1, values(start + P + j) / limit) : 0;
    const colour = colours[Math.round(share * top)];
    image.data[4 * j] = colour[0]; image.data[4 * j + 1] = colour[1]; image.data[4 * j + 2] = colour[2];
    image.data[4 * j + 3] = veil ? 255 * (0.35 + 0.65 * Math.sqrt(share)) : 255;
  }
  context.putImageData(image, 0, 0);
  return cells;
};
const fit = (canvas, ratio) => {  // the backing store in device pixels; returns its context in CSS ones
  const width = canvas.clientWidth, height = width * ratio, dense = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  const w = Math.round(width * dense), h = Math.round(height * dense);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const context = canvas.getContext('2d');
  context.setTransform(dense, 0, 0, dense, 0, 0);
  return [context, width, height];
};
const onStage = (width, height) => {  // the patches' frame in CSS pixels of the photo's canvas
  const [ph, pw] = facts.photo, [l, t, r, b] = facts.frame;
  return [l * width / pw, t * height / ph, r * width / pw, b * height / ph];
};
const rectOf = (token, width, height) => {
  const [rowsCount, columns] = facts.grid, [l, t, r, b] = onStage(width, height), cell = token - P;
  const w = (r - l) / columns, h = (b - t) / rowsCount;
  return [l + (cell % columns) * w, t + Math.floor(cell / columns) * h, w, h];
};
const style = (name) => getComputedStyle(host).getPropertyValue(name).trim();

let shown = null;  // what the photo's canvas shows now; tests read it
const drawPhoto = () => {
  const values = row(), token = query();
  const ratio = facts.photo[0] / facts.photo[1];
  photo.style.maxWidth = `calc(74vh / ${ratio})`;
  const [context, width, height] = fit(photo, ratio);
  if (!width) return;
  context.clearRect(0, 0, width, height);
  if (picture) context.drawImage(picture, 0, 0, width, height);
  const [l, t, r, b] = onStage(width, height);
  context.fillStyle = 'rgba(24,24,27,.62)';  // what the model did not see
  context.beginPath(); context.rect(0, 0, width, height); context.rect(l, t, r - l, b - t); context.fill('evenodd');
  let limit = 0, largest = 0;
  if (values) {
    for (let j = P; j < N; j++) largest = Math.max(largest, values[j]);
    limit = run ? run.limit : extentMenu.value === 'fixed' && common ? common : largest;
    context.imageSmoothingEnabled = false;
    context.globalAlpha = $('.opacity input').value / 100;
    context.drawImage(paint((j) => values[j], 0, limit, true), l, t, r - l, b - t);
    context.globalAlpha = 1;
  }
  if (token >= P) {
    const [x, y, w, h] = rectOf(token, width, height);
    context.lineWidth = 4; context.strokeStyle = '#000'; context.strokeRect(x, y, w, h);
    context.lineWidth = 2; context.strokeStyle = '#fff'; context.strokeRect(x, y, w, h);
  }
  photo.classList.toggle('waiting', !values && !(token === DECISION && who));
  shown = values ? { token, block, head, who, values, limit } : null;
  drawChips(values, limit);
  drawScale(values, limit);
  drawLine(values, token);
};
const drawChips = (values, limit) => {
  let onPatches = 0;
  if (values) for (let j = P; j < N; j++) onPatches += values[j];
  for (const chip of chips.children) {
    const token = Number(chip.dataset.token), share = chip.querySelector('b'), swatch = chip.querySelector('i');
    if (chip.tagName === 'BUTTON') {
      chip.setAttribute('aria-pressed', String(token === pinned));
      chip.classList.toggle('now', token === query());
    }
    if (token === DECISION || !share) continue;
    const value = !values ? null : token === -2 ? onPatches : values[token];
    share.textContent = value === null ? '…' : token === -2 && who ? '' : percent(value);
    if (swatch && value !== null) {
      const [r, g, b] = colours[Math.round(Math.min(1, limit ? value / limit : 0) * (colours.length - 1))];
      swatch.style.background = `rgb(${r},${g},${b})`;
    }
  }
};
const drawScale = (values, limit) => {
  const bar = $('canvas.bar');
  if (bar.width !== colours.length) {  // drawn once, a pixel a colour; the style sheet stretches it
    bar.width = colours.length; bar.height = 1;
    const context = bar.getContext('2d');
    colours.forEach((colour, x) => { context.fillStyle = `rgb(${colour})`; context.fillRect(x, 0, 1, 1); });
  }
  const fixed = !run && extentMenu.value === 'fixed';
  $('.scale .top').textContent = values ? percent(limit) + (fixed ? ' +' : '') : '';
  $('.scale .note').textContent = fill(run ? 'attention_scale_run' : fixed ? 'attention_scale_fixed' : 'attention_scale_own');
};
const drawLine = (values, token) => {
  const line = $('.line');
  let text;
  if (!values) text = token === DECISION && who ? fill('attention_no_who') : fill('attention_waiting');
  else {
    const [h, w] = facts.grid, sums = new Float64Array(9), areas = new Float64Array(9);
    let total = 0, prefix = 0, largest = 0;
    for (let j = 0; j < N; j++) {
      total += values[j];
      if (j < P) { prefix += values[j]; continue; }
      const cell = j - P, at = 3 * Math.floor(3 * (Math.floor(cell / w) + 0.5) / h) + Math.floor(3 * (cell % w + 0.5) / w);
      sums[at] += values[j]; areas[at] += 1;
      if (values[j] > values[P + largest]) largest = cell;
    }
    const dense = Array.from(sums, (sum, at) => (areas[at] ? sum / areas[at] : 0));
    const best = dense.indexOf(Math.max(...dense)), onPhoto = total - prefix || 1;
    const even = sums[best] / onPhoto < facts.even * areas[best] / (h * w);
    const key = who ? (even ? 'attention_line_who_even' : 'attention_line_who')
      : (even ? 'attention_line_even' : 'attention_line');
    const words = {
      block, head: headName(), query: tokenName(token), region: texts.regions[best],
      share: percent(sums[best] / onPhoto), area: percent(areas[best] / (h * w)),
      prefix: percent(prefix / (total || 1)), peak: tokenName(P + largest),
      value: percent(values[P + largest]), mean: percent(total / N),
    };
    text = fill(key, words);
    if (P && !who) text += ' ' + fill('attention_line_prefix', words);
  }
  if (line.textContent === text) return;
  line.textContent = text;
  clearTimeout(quiet);  // spoken only once the pointer rests
  quiet = setTimeout(() => { $('.quiet').textContent = text; photo.setAttribute('aria-label', text); }, 400);
};
const layout = () => {  // the sheet's measures in CSS pixels; maps of at most some 64 of them
  board.style.setProperty('--sheet', `${facts.heads * 69 + 56}px`);
  const width = sheet.clientWidth, left = 26, top = 20, gap = facts.heads > 12 ? 3 : 5;
  const cell = (width - left) / facts.heads - gap, [h, w] = facts.grid, tall = cell * h / w;
  return { width, left, top, gap, cell, tall, height: top + facts.blocks * (tall + gap) };
};
const drawSheet = () => {
  if (!facts || !colours || !sheet.clientWidth) return;
  markDots();
  const m = layout(), [context] = fit(sheet, m.height / m.width);
  context.clearRect(0, 0, m.width, m.height);
  context.fillStyle = style('--body-text-color-subdued') || '#777';
  context.font = '11px system-ui, sans-serif'; context.textBaseline = 'middle'; context.textAlign = 'center';
  for (let k = 0; k < facts.heads; k++) context.fillText(k, m.left + k * (m.cell + m.gap) + m.cell / 2, m.top / 2);
  for (let b = 0; b < facts.blocks; b++) context.fillText(b, m.left / 2 - 3, m.top + b * (m.tall + m.gap) + m.tall / 2);
  const fixed = extentMenu.value === 'fixed';
  context.imageSmoothingEnabled = m.cell < facts.grid[1];
  for (let b = 0; b < facts.blocks; b++) {
    for (let k = 0; k < facts.heads; k++) {
      const x = m.left + k * (m.cell + m.gap), y = m.top + b * (m.tall + m.gap);
      if (overview) {
        const start = (b * facts.heads + k) * N;
        let limit = common;
        if (!fixed) { limit = 0; for (let j = P; j < N; j++) limit = Math.max(limit, HALF[overview[start + j]]); }
        context.drawImage(paint((j) => HALF[overview[j]], start, limit, false), x, y, m.cell, m.tall);
      } else { context.globalAlpha = 0.15; context.fillRect(x, y, m.cell, m.tall); context.globalAlpha = 1; }
    }
  }
  const accent = style('--color-accent') || '#0d9488', y = m.top + block * (m.tall + m.gap);
  context.strokeStyle = accent; context.lineWidth = 3;
  if (typeof head === 'number') context.strokeRect(m.left + head * (m.cell + m.gap) - 1.5, y - 1.5, m.cell + 3, m.tall + 3);
  else context.strokeRect(m.left - 1.5, y - 1.5, m.width - m.left - m.gap + 3, m.tall + 3);
  const title = fill('attention_grid_title', { query: tokenName(overviewOf === null ? pinned : overviewOf) });
  $('.right h3').textContent = title;
  $('.right .sub').textContent = `${fill('attention_grid_axes')} ${fixed
    ? fill('attention_grid_fixed', { limit: percent(common) }) : fill('attention_grid_own')}`;
  sheet.setAttribute('aria-label', `${title} ${fill('attention_grid_keys')}`);
};
const later = () => { if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); }); };
const draw = () => {
  if (!facts || !colours || !photo.clientWidth) return;
  fetchRows();
  drawPhoto();
};
const drawAll = () => { draw(); drawSheet(); };

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
  const token = facts && tokenAt(event);
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
  const all = [...headMenu.options].map((option) => option.value);
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
  const m = layout(), box = sheet.getBoundingClientRect(), k = m.width / box.width;
  const column = Math.floor(((event.clientX - box.left) * k - m.left) / (m.cell + m.gap));
  const line = Math.floor(((event.clientY - box.top) * k - m.top) / (m.tall + m.gap));
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
$('.opacity input').addEventListener('input', later);
$('.full').addEventListener('click', () => {
  if (document.fullscreenElement) document.exitFullscreen(); else host.requestFullscreen?.();
});

// -- from Python --------------------------------------------------------------------------------
const say = (key) => { message.textContent = texts[key] || key; message.hidden = false; };
const renew = (key) => {  // ask Python to make what is to be shown now; a new value follows
  if (renewing) return;
  renewing = true;
  if (key) say(key);
  trigger('renew', {});
};
const label = () => {
  const set = (query, key) => { $(query).textContent = fill(key); };
  set('.switch [data-who="0"]', 'attention_where'); set('.switch [data-who="1"]', 'attention_who');
  set('.block span', 'attention_block'); set('.head span', 'attention_head'); set('.extent span', 'attention_scale');
  set('.extent [value=own]', 'attention_own'); set('.extent [value=fixed]', 'attention_fixed');
  set('.opacity span', 'attention_opacity'); set('.full', 'attention_full'); set('.keys', 'attention_keys');
  set('.films span', 'attention_film'); labelPlay(); drawDots();
  for (const button of root.querySelectorAll('.films button')) button.hidden = !facts.films.includes(button.dataset.kind);
  $('.switch').setAttribute('aria-label', fill('attention_where'));
  $('.block [data-step="-1"]').setAttribute('aria-label', fill('attention_block_down'));
  $('.block [data-step="1"]').setAttribute('aria-label', fill('attention_block_up'));
  headMenu.replaceChildren();
  const add = (value, text) => headMenu.append(new Option(text, value));
  add('mean', fill('attention_mean'));
  if (facts.rolled) add('rolled', fill('attention_rolled_menu'));
  for (let k = 0; k < facts.heads; k++) add(String(k), fill('attention_head_n', { head: k }));
  if (head === 'rolled' && !facts.rolled) head = 'mean';
  headMenu.value = String(head);
  chips.replaceChildren();
  const chip = (token, name, tag = 'button') => {
    const made = document.createElement(tag), swatch = document.createElement('i');
    if (tag === 'button') made.type = 'button';
    made.dataset.token = token;
    const text = document.createElement('span'), share = document.createElement('b');
    text.textContent = name;
    if (token >= 0) made.append(swatch);
    made.append(text);
    if (token !== DECISION) made.append(share);
    chips.append(made);
  };
  if (facts.start === DECISION) chip(DECISION, fill('attention_decider'));
  facts.prefix.forEach((name, token) => chip(token, token === facts.start ? fill('attention_chip_decides', { name }) : name));
  chip(-2, fill('attention_patches'), 'span');
};
