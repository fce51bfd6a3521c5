
// -- how far each head looks, and how widely it spreads: one dot a head ------------------------------
const CHART = { width: 460, height: 270, left: 52, right: 12, top: 12, bottom: 42 };
const SAYS = {
  distance: { title: 'attention_distance_title', axis: 'attention_distance_axis', dot: 'attention_distance_dot' },
  entropy: { title: 'attention_entropy_title', axis: 'attention_entropy_axis', dot: 'attention_entropy_dot' },
};
const spots = {};  // chart → [x, y, block, head] of each dot, in the drawing's own units
const svgOf = (name, attributes, text) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const roundStep = (span) => {  // about five lines, at round numbers
  const power = 10 ** Math.floor(Math.log10(span / 5));
  return power * [1, 2, 5, 10].find((step) => step * power >= span / 5);
};
const dotName = (chart, b, k) => {
  const value = facts[chart][b][k];
  return fill(SAYS[chart].dot, { block: b, head: k, value: chart === 'entropy' ? percent(value) : value.toFixed(1) });
};
const drawChart = (chart) => {
  const { width, height, left, right, top, bottom } = CHART, values = facts[chart];
  const high = chart === 'entropy' ? 1 : Math.max(...values.flat()) * 1.05 || 1;
  const x = (b) => left + 10 + (facts.blocks > 1 ? b / (facts.blocks - 1) : 0.5) * (width - left - right - 20);
  const y = (value) => height - bottom - (value / high) * (height - top - bottom);
  const svg = svgOf('svg', { viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: 'application' });
  const write = (attributes, text) => svg.append(svgOf('text', { 'text-anchor': 'middle', ...attributes }, text));
  for (let value = 0, step = roundStep(high); value <= high * 1.0001; value += step) {
    svg.append(svgOf('line', { x1: left, x2: width - right, y1: y(value), y2: y(value), class: 'rule' }));
    write({ x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, chart === 'entropy' ? value.toFixed(1) : Math.round(value * 100) / 100);
  }
  for (let b = 0; b < facts.blocks; b += Math.ceil(facts.blocks / 13)) write({ x: x(b), y: height - bottom + 17 }, b);
  write({ x: (left + width - right) / 2, y: height - 6 }, fill('attention_block'));
  write({ transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)` }, fill(SAYS[chart].axis));
  const means = values.map((heads, b) => `${x(b)},${y(heads.reduce((sum, v) => sum + v, 0) / heads.length)}`);
  svg.append(svgOf('polyline', { points: means.join(' '), class: 'mean' }));
  spots[chart] = values.flatMap((heads, b) => heads.map((value, k) => [x(b), y(value), b, k]));
  for (const [cx, cy] of spots[chart]) svg.append(svgOf('circle', { cx, cy, r: 4 }));
  svg.append(svgOf('circle', { r: 7, class: 'ring' }));
  return svg;
};
const drawDots = () => {
  for (const box of root.querySelectorAll('.dots')) {
    const chart = box.dataset.chart, svg = drawChart(chart);
    const [title, stage, tip, note] = ['h3', 'div', 'p', 'p'].map((tag) => document.createElement(tag));
    title.textContent = fill(SAYS[chart].title);
    note.className = 'sub'; tip.className = 'tip'; tip.hidden = true;
    note.textContent = `${texts[chart]} ${fill('attention_dots_mean')} ${fill('attention_dots_keys')}`;
    stage.className = 'chart';
    stage.append(svg, tip);
    box.replaceChildren(title, stage, note);
    dotEvents(chart, svg, tip);
  }
  markDots();
};
const nearest = (chart, svg, event) => {  // the dot under the pointer, or close by
  const box = svg.getBoundingClientRect(), k = Math.max(CHART.width / box.width, CHART.height / box.height);
  const x = (event.clientX - (box.left + box.right) / 2) * k + CHART.width / 2;
  const y = (event.clientY - (box.top + box.bottom) / 2) * k + CHART.height / 2;
  let best = null, least = 14 * Math.max(1, k);
  for (const spot of spots[chart]) {
    const far = Math.hypot(spot[0] - x, spot[1] - y);
    if (far < least) { least = far; best = spot; }
  }
  return best;
};
const current = (chart) => spots[chart].find((spot) => spot[2] === block && spot[3] === head);
const dotEvents = (chart, svg, tip) => {
  const tell = (spot) => {
    tip.hidden = !spot;
    if (!spot) return;
    tip.textContent = dotName(chart, spot[2], spot[3]);
    tip.style.left = `${Math.min(78, Math.max(22, 100 * spot[0] / CHART.width))}%`;
    tip.style.top = `${100 * spot[1] / CHART.height}%`;
    tip.classList.toggle('under', spot[1] < 50);
  };
  const rest = () => tell(svg.matches(':focus-visible') ? current(chart) : null);
  svg.addEventListener('pointermove', (event) => tell(nearest(chart, svg, event)));
  svg.addEventListener('pointerleave', rest);
  svg.addEventListener('focus', rest);
  svg.addEventListener('blur', () => tell(null));
  svg.addEventListener('click', (event) => {
    const spot = nearest(chart, svg, event);
    if (spot) open(spot[2], spot[3]);
  });
  svg.addEventListener('keydown', (event) => {
    const arrow = ARROWS[event.key];
    if (!arrow || event.ctrlKey || event.metaKey || event.altKey) return;
    const values = facts[chart][block];  // up and down: the next dot above or below in this block
    const order = values.map((value, k) => k).sort((a, b) => values[a] - values[b]);
    const at = typeof head === 'number' ? order.indexOf(head) - arrow[0] : 0;
    if (arrow[0] || typeof head !== 'number') setHead(order[Math.max(0, Math.min(order.length - 1, at))]);
    setBlock(block + arrow[1]);
    tell(current(chart));
    event.preventDefault(); event.stopPropagation();
  });
};
const markDots = () => {
  for (const box of root.querySelectorAll('.dots')) {
    const chart = box.dataset.chart, svg = box.querySelector('svg');
    if (!svg || !spots[chart]) continue;
    const spot = current(chart), ring = svg.querySelector('.ring');
    ring.style.display = spot ? '' : 'none';
    if (spot) { ring.setAttribute('cx', spot[0]); ring.setAttribute('cy', spot[1]); }
    const now = spot ? `${dotName(chart, block, head)}. ` : '';
    svg.setAttribute('aria-label', `${fill(SAYS[chart].title)}. ${now}${fill('attention_dots_keys')}`);
  }
};
