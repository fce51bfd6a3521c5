
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
    context.globalAlpha = opacity.value / 100;
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
