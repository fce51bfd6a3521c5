// What a test asks of the page: which controls there are, and what is to be seen.

const everything = (root, found = []) => {
  for (const element of root.querySelectorAll('*')) {
    found.push(element);
    if (element.shadowRoot) everything(element.shadowRoot, found);
  }
  return found;
};

const visible = (element) => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.height > 0 && element.checkVisibility({ visibilityProperty: true });
};

const host = (element) =>
  element.closest('[id^=vs-]') || element.getRootNode().host?.closest('[id^=vs-]');

const kind = (element) => {
  if (element.tagName === 'INPUT' || element.tagName === 'TEXTAREA')
    return element.getAttribute('role') === 'combobox' || element.getAttribute('aria-haspopup')
      ? 'menu' : element.type;
  if (element.tagName === 'SELECT') return 'select';
  if (element.tagName === 'SUMMARY') return 'fold';
  if (element.tagName === 'CANVAS') return element.tabIndex < 0 ? null : 'canvas';
  if (element.tagName === 'BUTTON' || element.getAttribute('role') === 'button') return 'button';
  return null;
};

/** What people call it; what a number in it says may change, and a canvas tells what it shows. */
const called = (element) => element.tagName === 'CANVAS' ? element.className || 'canvas'
  : (element.getAttribute('aria-label') || element.labels?.[0]?.innerText || element.innerText || '')
    .replace(/[\d.]+ %/, '').replace(/\s+/g, ' ').trim();

let marks = 0;

/** The controls that are to be seen inside parts of the page but outside others, less Gradio's own. */
window.controls = ([inside, outside]) => {
  const found = [], names = {};
  const parts = [...document.querySelectorAll(inside)].filter(visible);
  for (const element of parts.flatMap((part) => everything(part))) {
    const what = kind(element), name = called(element);
    if (!what || !name || !visible(element) || (outside && element.closest(outside)) || window.GRADIOS.includes(name)) continue;
    const place = host(element)?.id || '', key = `${place}/${what}/${name}`;
    names[key] = (names[key] || 0) + 1;
    element.dataset.control ||= ++marks;
    found.push({
      place, kind: what, name: names[key] > 1 ? `${name} (${names[key]})` : name,
      n: Number(element.dataset.control), disabled: Boolean(element.disabled),
      chosen: (what === 'radio' && element.checked) || element.ariaPressed === 'true',
    });
  }
  return found;
};

/** The field that a control is part of; the control alone where that is a whole panel. */
const field = (element) => {
  const block = element?.closest('.block');
  const press = ['BUTTON', 'SUMMARY'].includes(element?.tagName);
  const alone = press || !block || block.querySelector('img, a, canvas');
  return alone ? element : block;
};

/** All that is to be seen, but for what stands in the control's own field. */
window.shown = (n) => {
  const all = everything(document.body);
  const own = field(all.find((element) => element.dataset?.control === String(n)));
  const parts = [Boolean(document.fullscreenElement)];
  for (const element of all) {
    if (own?.contains(element) || !visible(element)) continue;
    for (const node of element.childNodes) if (node.nodeType === 3) parts.push(node.data);
    if (element.tagName === 'IMG') parts.push(element.src, getComputedStyle(element).clipPath);
    if (element.tagName === 'A') parts.push(element.href);
    if (element.tagName === 'CANVAS') parts.push(element.toDataURL());
    if ('value' in element) parts.push(element.value);
  }
  return parts.join('\n');
};
