
// -- words, and what is asked of Python -----------------------------------------------------------
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
  const add = (value, text) => { const made = new Option(text, value); headMenu.append(made); return made; };
  add('mean', fill('attention_mean'));
  if (facts.rolled) add('rolled', fill('attention_rolled_menu'));
  else add('rolled', fill('attention_rolled_none', { most: facts.rolled_most })).disabled = true;
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
