// The page on which a person goes through values. All that comes from documents is put in as text.
import { $, h } from '../../view/assets/elements.mjs';

// -- What is known
const known = JSON.parse($('data').textContent);
let entries = [];
let shown = null;

function fault(text) {
  $('fault').textContent = text;
  $('fault').hidden = !text;
}

async function read(path) {
  const response = await fetch(path);
  const said = await response.json();
  if (said.error) throw new Error(said.error.message);
  return said;
}

// -- One item
const STATES = { open: '', accepted: 'accepted', corrected: 'corrected', absent: 'not there' };

function picture(cell) {
  const link = h('a', {
    href: `pages/${shown.number}/${cell.place}.webp`,
    target: '_blank',
    tabindex: '-1',
  });
  const image = h('img', {
    src: `crops/${shown.number}/${cell.place}.webp`,
    alt: `${cell.name} on page ${cell.page}`,
    loading: 'lazy',
  });
  image.addEventListener('error', () =>
    link.replaceWith(h('p', { class: 'note' }, 'The page cannot be shown.')),
  );
  link.append(image);
  return link;
}

function cellOf(cell, only) {
  const row = h('div', { class: 'cell' });
  row.append(cell.page ? picture(cell) : h('p', { class: 'note' }, 'It stands on no page that is known.'));
  const side = h('div');
  const label = h('label', {}, only ? '' : cell.name);
  const input = h('input', {
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
  if (cell.printed) side.append(h('p', { class: 'note', dir: 'auto' }, `printed: ${cell.printed}`));
  if (cell.reason) side.append(h('p', { class: 'why', dir: 'auto' }, cell.reason));
  row.append(side);
  return row;
}

function itemOf(item) {
  const many = item.cells.length > 1 || item.cells[0].path !== item.path;
  const kinds = ['item', many ? 'row' : 'single', item.doubtful ? 'doubtful' : 'sure', item.how];
  const made = h('li', { class: kinds.join(' '), tabindex: '0', 'data-path': item.path });
  const head = h('header');
  head.append(h('h3', { dir: 'auto' }, item.path), h('span', { class: 'state' }, STATES[item.how]));
  for (const [name, how] of [
    ['Accept', 'accepted'],
    ['Not there', 'absent'],
    ['Undo', 'open'],
  ]) {
    if (how === 'open' && item.how === 'open') continue;
    const button = h(
      'button',
      { type: 'button', 'data-how': how, tabindex: '-1', click: () => say(made, how) },
      name,
    );
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
    const said = await response.json();
    if (said.error) throw new Error(said.error.message);
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
  $('left').textContent = left ? `${left} left in ${open} of ${entries.length} documents` : 'All is reviewed';
  for (const [n, entry] of entries.entries()) $('documents').options[n].textContent = named(entry);
}

function named(entry) {
  if (entry.error) return `${entry.name} (not read)`;
  return entry.left ? `${entry.name} (${entry.left} left)` : `${entry.name} ✓`;
}

function forward() {
  const number = shown.number;
  const order = [...entries.keys()].sort((a, b) => (a <= number) - (b <= number) || a - b);
  const next = order.find(n => n !== number && entries[n].left);
  if (next === undefined) $('items').lastElementChild?.focus();
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
  $('documents').value = String(number);
  $('name').textContent = shown.name;
  $('name').title = shown.file;
  $('error').textContent = shown.error;
  $('error').hidden = !shown.error;
  $('items').replaceChildren(...shown.items.map(itemOf));
  (document.querySelector('#items .open') ?? $('items').firstElementChild)?.focus();
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
$('documents').addEventListener('change', event => open(Number(event.target.value)));
$('back').addEventListener('click', () => open(shown.number - 1));
$('next').addEventListener('click', () => open(shown.number + 1));

async function start() {
  $('title').textContent = known.title;
  document.title = `${known.title} · CoSee`;
  try {
    entries = await read('documents.json');
  } catch (error) {
    fault(error.message);
    return;
  }
  $('documents').replaceChildren(
    ...entries.map((entry, n) => h('option', { value: String(n) }, named(entry))),
  );
  tell();
  const first = entries.findIndex(entry => entry.left);
  if (entries.length) open(Math.max(0, first));
}
start();
