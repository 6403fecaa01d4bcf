// The page on which a person goes through values. All that comes from documents is put in as text.

// -- What is known
const known = JSON.parse(document.getElementById('data').textContent);
const at = id => document.getElementById(id);
let entries = [];
let shown = null;

function node(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function fault(text) {
  at('fault').textContent = text;
  at('fault').hidden = !text;
}

async function read(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

// -- One item
const STATES = { open: '', accepted: 'accepted', corrected: 'corrected', absent: 'not there' };

function picture(cell) {
  const link = node('a', '', {
    href: `pages/${shown.number}/${cell.place}.webp`,
    target: '_blank',
    tabindex: '-1',
  });
  const image = node('img', '', {
    src: `cuttings/${shown.number}/${cell.place}.webp`,
    alt: `${cell.name} on page ${cell.page}`,
    loading: 'lazy',
  });
  image.addEventListener('error', () =>
    link.replaceWith(node('p', 'The page cannot be shown.', { class: 'note' })),
  );
  link.append(image);
  return link;
}

function cellOf(cell, only) {
  const row = node('div', '', { class: 'cell' });
  row.append(cell.page ? picture(cell) : node('p', 'It stands on no page that is known.', { class: 'note' }));
  const side = node('div');
  const label = node('label', only ? '' : cell.name);
  const input = node('input', '', {
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-label': cell.name,
    dir: 'auto',
  });
  input.value = cell.text;
  input.dataset.path = cell.path;
  input.placeholder = cell.choices.length ? cell.choices.slice(0, 8).join(', ') : cell.kind;
  label.append(input);
  side.append(label);
  if (cell.printed) side.append(node('p', `printed: ${cell.printed}`, { class: 'note', dir: 'auto' }));
  if (cell.reason) side.append(node('p', cell.reason, { class: 'why', dir: 'auto' }));
  row.append(side);
  return row;
}

function itemOf(item) {
  const many = item.cells.length > 1 || item.cells[0].path !== item.path;
  const kinds = ['item', many ? 'row' : 'single', item.doubtful ? 'doubtful' : 'sure', item.how];
  const made = node('li', '', { class: kinds.join(' '), tabindex: '0', 'data-path': item.path });
  const head = node('header');
  head.append(node('h3', item.path, { dir: 'auto' }), node('span', STATES[item.how], { class: 'state' }));
  for (const [name, how] of [
    ['Accept', 'accepted'],
    ['Not there', 'absent'],
    ['Undo', 'open'],
  ]) {
    if (how === 'open' && item.how === 'open') continue;
    const button = node('button', name, { type: 'button', 'data-how': how, tabindex: '-1' });
    button.addEventListener('click', () => say(made, how));
    head.append(button);
  }
  made.append(head, ...item.cells.map(cell => cellOf(cell, !many)));
  return made;
}

// -- What is said
async function say(item, how) {
  const texts = {};
  if (how === 'accepted')
    for (const input of item.querySelectorAll('input')) texts[input.dataset.path] = input.value;
  const body = JSON.stringify({ document: shown.number, path: item.dataset.path, how, texts });
  const headers = { 'Content-Type': 'application/json', 'X-CoSee-Token': known.token };
  try {
    const response = await fetch('gold', { method: 'POST', headers, body });
    const said = response.headers.get('Content-Type') === 'application/json' ? await response.json() : null;
    if (!said) throw new Error(await response.text());
    if (said.fault) return refuse(item, said);
    taken(item, said, how);
  } catch (error) {
    fault(`Not kept: ${error.message}`);
  }
}

function refuse(item, said) {
  const input = [...item.querySelectorAll('input')].find(one => one.dataset.path === said.path);
  fault(`${said.path}: ${said.fault}`);
  input?.setAttribute('aria-invalid', 'true');
  input?.focus();
}

function taken(item, said, how) {
  fault('');
  entries[shown.number].left = said.left;
  const made = itemOf(said.item);
  const next = item.nextElementSibling;
  item.replaceWith(made);
  tell();
  if (how === 'open') made.focus();
  else if (next) next.focus();
  else if (said.left) document.querySelector('#items .open')?.focus();
  else forward();
}

// -- Documents
function tell() {
  const left = entries.reduce((sum, entry) => sum + entry.left, 0);
  const open = entries.filter(entry => entry.left).length;
  at('left').textContent = left
    ? `${left} left in ${open} of ${entries.length} documents`
    : 'All is reviewed';
  for (const [n, entry] of entries.entries()) at('documents').options[n].textContent = named(entry);
}

function named(entry) {
  if (entry.error) return `${entry.name} (not read)`;
  return entry.left ? `${entry.name} (${entry.left} left)` : `${entry.name} ✓`;
}

function forward() {
  const number = shown.number;
  const order = [...entries.keys()].sort((a, b) => (a <= number) - (b <= number) || a - b);
  const next = order.find(n => n !== number && entries[n].left);
  if (next === undefined) at('items').lastElementChild?.focus();
  else open(next);
}

async function open(number) {
  if (number < 0 || number >= entries.length) return;
  try {
    shown = await read(`documents/${number}.json`);
  } catch (error) {
    fault(error.message);
    return;
  }
  fault('');
  at('documents').value = String(number);
  at('name').textContent = shown.name;
  at('name').title = shown.file;
  at('error').textContent = shown.error;
  at('error').hidden = !shown.error;
  at('items').replaceChildren(...shown.items.map(itemOf));
  (document.querySelector('#items .open') ?? at('items').firstElementChild)?.focus();
  scrollTo(0, 0);
}

// -- Keys
function move(item, step) {
  const other = step > 0 ? item.nextElementSibling : item.previousElementSibling;
  other?.focus();
  other?.scrollIntoView({ block: 'nearest' });
}

const KEYS = {
  Enter: item => say(item, 'accepted'),
  ArrowDown: item => move(item, 1),
  ArrowUp: item => move(item, -1),
  PageDown: () => open(shown.number + 1),
  PageUp: () => open(shown.number - 1),
};

function pressed(event) {
  const item = event.target.closest('.item');
  if (!shown || !item || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.tagName === 'INPUT';
  if (event.target.tagName === 'BUTTON' || event.target.tagName === 'A') return;
  if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key](item);
  } else if (event.key === 'Escape' && typing) item.focus();
  else if (event.key === 'Delete' && !typing) say(item, 'absent');
  else if (event.key.length === 1 && !typing) begin(item);
}

// What is typed on an item goes into its first input, in the place of what stands there.
function begin(item) {
  const input = item.querySelector('input');
  input.focus();
  input.select();
}

document.addEventListener('keydown', pressed);
at('documents').addEventListener('change', event => open(Number(event.target.value)));
at('back').addEventListener('click', () => open(shown.number - 1));
at('next').addEventListener('click', () => open(shown.number + 1));

async function start() {
  at('title').textContent = known.title;
  document.title = `${known.title} · CoSee`;
  try {
    entries = await read('documents.json');
  } catch (error) {
    fault(error.message);
    return;
  }
  at('documents').replaceChildren(
    ...entries.map((entry, n) => node('option', named(entry), { value: String(n) })),
  );
  tell();
  const first = entries.findIndex(entry => entry.left);
  if (entries.length) open(Math.max(0, first));
}
start();
