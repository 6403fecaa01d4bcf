// The page of the run viewer. What is shown is a function of the data and of the state, and the state stands in
// the address behind `#`. Texts become text nodes, whatever they hold; nothing is ever parsed as markup.
import { $, fill, focusPressed, h, hidden, silent } from '../../view/assets/elements.mjs';
import { inWords, plural } from '../../view/assets/words.mjs';
import {
  addressOf,
  answersTo,
  compared,
  gapOf,
  indexed,
  nextSort,
  pageOf,
  pairOf,
  readState,
  resultOf,
  rightOf,
  SIZES,
  START,
  samplesOf,
  select,
  shownSort,
  summaryOf,
  topOf,
  trailOf,
  VIEWS,
} from './viewer_logic.mjs';

// -- The state
let run = null; // the data
let state = { ...START };
let list = []; // what passes the filters, in order

const link = change => addressOf({ ...state, ...change });

function go(change, quiet) {
  history[quiet ? 'replaceState' : 'pushState'](null, '', link(change));
  show();
}

const filter = (change, quiet) => go({ page: '1', ...change }, quiet);

// -- Parts of a row
const NAMES = { right: 'right', wrong: 'wrong', silent: 'no answer', error: 'failed', none: 'not scored' };
const MARKS = { right: '✓', wrong: '✗', silent: '∅', error: '!', none: '–' };
const cut = (text, more = '') => h('span', { class: `cut ${more}`, dir: 'auto' }, text);

function chip(i) {
  const result = resultOf(run, i);
  const score = i >= 0 ? inWords(run.score[i], 2) : '';
  const parts = [silent(MARKS[result]), hidden(`${NAMES[result]} `), ` ${score}`];
  return h('span', { class: `chip ${result}`, title: NAMES[result] }, parts);
}

function answer(i) {
  if (i < 0) return cut('', 'dim');
  const text = run.rows.answer[i];
  const outcome = run.rows.outcome[i];
  if (outcome === 'failed') return cut(text || 'failed', 'said');
  return text === '' ? cut(`(${outcome})`, 'dim') : cut(text);
}

// Every row has a link to its episode, so that it can be reached, opened, and copied like any link.
function open(i, inside) {
  const key = run.rows.key[i];
  return h('a', { href: link({ open: key }), tabindex: '-1', 'data-key': key }, inside);
}

function asked(s, i) {
  const { id, doc, question } = run.samples;
  const names = [id[s], doc[s] === id[s] ? '' : doc[s]].filter(Boolean).join(' · ');
  const text = cut(question[s]);
  return [i >= 0 ? open(i, text) : text, h('span', { class: 'id', dir: 'auto' }, names)];
}

const goldOf = s => cut(run.samples.gold[s]);

function page(i) {
  const found = run.rows.page[i];
  const gold = run.samples.pages[run.rows.s[i]];
  if (found === null) return '';
  if (!gold) return [String(found), ''];
  const fits = gold.split(' ').includes(String(found));
  const beside = silent(fits ? ' ✓' : ` ≠ ${gold}`, { class: 'dim', title: `gold ${gold}` });
  return [String(found), hidden(` of the gold ${gold}`), beside];
}

// An answer in the table of questions by methods.
function tinted(i) {
  const result = resultOf(run, i);
  const a = open(i, [silent(MARKS[result]), hidden(`${NAMES[result]}: `), answer(i)]);
  a.className = `cell ${result}`;
  return a;
}

// -- Columns
// A column knows what to sort by (`get`) and how a row looks in it (`make`). `num`: numbers, sorted from above
// at first unless `up`. `w`: width in rem. `p`: p2 and p3 go first where the window is narrow. `at` and `label`:
// place and name on a phone.
const column = (key, name, get, make, more) => ({ key, name, get, make, ...more });

function count(key, name, digits, more) {
  const values = run.rows[key];
  return column(
    key,
    name,
    i => values[i],
    i => inWords(values[i], digits),
    { num: true, ...more },
  );
}

function metric([name, title], k) {
  const values = run.rows.scores[k + 1];
  const make = i => inWords(values[i], 2);
  return column(`score${k + 1}`, name, i => values[i], make, { num: true, w: 3.6, p: 'p3', title });
}

function answersColumns() {
  const { rows, samples, data, methods } = run;
  const [name, title] = data.metrics[0] ?? ['result', ''];
  const ofSample = texts => i => texts[rows.s[i]];
  const method = i => cut(methods[rows.m[i]]);
  const gold = i => goldOf(rows.s[i]);
  const found = [
    column('score', name, i => run.score[i], chip, { w: 5.4, at: 'first', title }),
    column('question', 'Question', ofSample(samples.question), i => asked(rows.s[i], i), { at: 'full' }),
    methods.length > 1 && column('method', 'Method', i => rows.m[i], method, { w: 8.6, at: 'first' }),
    column('answer', 'Answer', i => rows.answer[i], answer, { at: 'half', label: 'Answer', w: 13 }),
    column('gold', 'Gold', ofSample(samples.gold), gold, { at: 'half', label: 'Gold', w: 11 }),
    column('page', 'Page', i => rows.page[i], page, { num: true, up: true, w: 4, label: 'page' }),
    ...data.metrics.slice(1).map(metric),
    count('tokens', 'Tokens', 0, { w: 4.8 }),
    count('calls', 'Calls', 0, { w: 3.9, p: 'p2' }),
    count('seconds', 'Seconds', 2, { w: 5, p: 'p2' }),
    rows.confidence.some(x => x !== null) &&
      count('confidence', 'Sure', 2, { w: 3.9, p: 'p3', title: 'confidence' }),
  ];
  return found.filter(Boolean);
}

// A row for each question, a column for each method.
function questionsColumns() {
  const { samples, methods } = run;
  const share = s => {
    const { right, scored } = rightOf(run, s);
    return scored ? right / scored : null;
  };
  const shareInWords = s => {
    const { right, scored } = rightOf(run, s);
    return `${right}/${scored}`;
  };
  const ofMethod = (name, m) => {
    const score = s => (run.of(s, m) < 0 ? null : run.score[run.of(s, m)]);
    const make = s => (run.of(s, m) < 0 ? '' : tinted(run.of(s, m)));
    return column(`m${m}`, name, score, make, { title: name });
  };
  return [
    column(
      'question',
      'Question',
      s => samples.question[s],
      s => asked(s, -1),
    ),
    column('gold', 'Gold', s => samples.gold[s], goldOf),
    column('right', 'Right', share, shareInWords, { num: true, up: true }),
    ...methods.map(ofMethod),
  ];
}

// A row for each question, with the answers of both methods.
function pairColumns() {
  const { samples, methods, rows } = run;
  const pair = pairOf(run, state);
  const full = label => ({ at: 'full', label });
  const side = (key, m) => {
    const its = s => run.of(s, m);
    const make = s => [chip(its(s)), ' ', open(its(s), answer(its(s)))];
    return column(key, methods[m], s => run.score[its(s)], make, full(key.toUpperCase()));
  };
  const tokens = (key, m) => {
    const get = s => rows.tokens[run.of(s, m)];
    const name = `Tokens ${key.toUpperCase()}`;
    return column(`${key}tokens`, name, get, s => inWords(get(s)), { num: true, w: 6, p: 'p2' });
  };
  const gap = s => gapOf(run, pair, s);
  const [a, b] = pair;
  return [
    column(
      'question',
      'Question',
      s => samples.question[s],
      s => asked(s, -1),
      { at: 'full' },
    ),
    column('gold', 'Gold', s => samples.gold[s], goldOf, full('Gold')),
    side('a', a),
    side('b', b),
    column('diff', 'B − A', gap, s => inWords(gap(s), 2), { num: true, up: true, w: 5, label: 'B − A' }),
    tokens('a', a),
    tokens('b', b),
  ];
}

// -- Two methods
function drawPair(both, choices) {
  const pair = pairOf(run, state);
  for (const [id, m] of [
    ['a', pair[0]],
    ['b', pair[1]],
  ]) {
    fill(
      id,
      run.methods.map((name, k) => h('option', { value: name, selected: k === m }, name)),
    );
  }
  drawSquare(both, choices);
  drawVerdict(both, pair);
}

function drawSquare(both, choices) {
  const classes = { both: 'yes', neither: 'no' };
  const button = ([key, name, test]) => {
    const pressed = state.only === key;
    const click = () => filter({ only: pressed ? '' : key });
    const inside = [h('b', {}, inWords(both.filter(test).length)), h('span', {}, name)];
    const properties = { type: 'button', class: classes[key] ?? '', 'aria-pressed': String(pressed), click };
    return h('td', {}, h('button', properties, inside));
  };
  const head = (text, scope) => h('th', { scope }, text);
  const [one, two, three, four] = choices.map(button);
  const top = h('tr', {}, h('td'), head('B right', 'col'), head('B wrong', 'col'));
  const right = h('tr', {}, head('A right', 'row'), one, two);
  const wrong = h('tr', {}, head('A wrong', 'row'), three, four);
  fill('square', h('table', {}, h('thead', {}, top), h('tbody', {}, right, wrong)));
}

function drawVerdict(both, pair) {
  if (pair[0] === pair[1]) return fill('verdict', 'A and B are the same method: choose another one.');
  if (!both.length) return fill('verdict', 'No question here has a score by both methods.');
  const { scores, tokens } = compared(run, pair, both);
  const [x, y] = scores;
  const gap = Math.abs(x - y);
  const ahead = `${y > x ? 'B' : 'A'} leads by ${inWords(gap, 1)} points`;
  return fill(
    'verdict',
    h('b', {}, `${run.data.metrics[0][0]}: A ${inWords(x, 1)}, B ${inWords(y, 1)}.`),
    ` ${gap < 0.05 ? 'They score alike' : ahead} on ${plural(both.length, 'shared question')},`,
    ` at ${inWords(tokens[0])} and ${inWords(tokens[1])} tokens each.`,
    run.data.report ? ' Whether that may be chance is in the report.' : '',
  );
}

// -- The table of methods
const numberCell = text => h('td', { class: 'n' }, text);

function scoreCell(value, best) {
  const isBest = value !== null && value === best;
  const text = value === null ? '–' : inWords(100 * value, 1);
  const td = h('td', { class: `n score${isBest ? ' best' : ''}` }, text);
  td.style.setProperty('--v', `${100 * (value ?? 0)}%`); // the bar behind it
  return td;
}

// Show the answers of one method; those of all methods, if it is the one that is shown.
function onlyMethod(name) {
  const method = state.method === name ? '' : name;
  filter({ view: 'answers', method, only: state.view === 'answers' ? state.only : '', sort: '' });
}

function methodLine(name, summary, best, withSilent) {
  const click = () => onlyMethod(name);
  const button = h('button', { type: 'button', title: 'Show these answers', click }, name);
  const on = state.view === 'answers' && state.method === name;
  return h(
    'tr',
    { class: on ? 'on' : null },
    h('td', {}, button),
    numberCell(inWords(summary.count)),
    summary.scores.map((value, k) => scoreCell(value, best[k])),
    numberCell(inWords(summary.wrong)),
    withSilent ? [numberCell(inWords(summary.silent))] : [],
    numberCell(inWords(summary.errors)),
    numberCell(inWords(summary.tokens)),
    numberCell(inWords(summary.calls, 1)),
    numberCell(inWords(summary.seconds, 2)),
  );
}

function drawSummary(rows) {
  const { methods, data } = run;
  const metrics = data.metrics.map(([, title]) => title);
  const summaries = methods.map((_, m) => summaryOf(run, rows, m));
  const withSilent = summaries.some(summary => summary.silent);
  const empty = withSilent ? ['No answer'] : [];
  const names = ['Method', 'n', ...metrics, 'Wrong', ...empty, 'Errors', 'Tokens', 'Calls', 'Seconds'];
  const head = names.map((name, k) => h('th', { scope: 'col', class: k ? 'n' : null }, name));
  const best = metrics.map((_, k) => topOf(summaries.map(summary => summary.scores[k])));
  const lines = methods.map((name, m) => methodLine(name, summaries[m], best, withSilent));
  fill('methods', h('thead', {}, h('tr', {}, head)), h('tbody', {}, lines));
  const part = rows.length < run.rows.s.length ? 'what the search and the part leave: ' : '';
  fill('of', `means over ${part}${plural(samplesOf(run, rows).length, 'question')}`);
}

// -- Drawing
// Everything is drawn anew when the state changes; of the table only the rows of one page, so that ten thousand
// questions cost no more than a hundred.
function show() {
  state = readState(location.hash, run.methods.length);
  const makers = { answers: answersColumns, questions: questionsColumns, pair: pairColumns };
  const columns = makers[state.view]();
  const selected = select(run, state, columns);
  list = selected.list;
  state.page = String(pageOf(state, list.length));
  showParts();
  drawSummary(selected.rows);
  drawTools(selected, columns);
  if (state.view === 'pair') drawPair(selected.base, selected.choices);
  drawTable(columns);
  drawCount(selected.base.length);
  drawPager();
  drawOne();
}

function showParts() {
  const isPair = state.view === 'pair';
  const parts = {
    summary: true,
    tools: true,
    hint: true,
    pair: isPair,
    only: !isPair,
    methodbox: state.view === 'answers' && run.methods.length > 1,
    groupbox: run.data.facets.length > 0,
  };
  for (const [id, on] of Object.entries(parts)) $(id).hidden = !on || !run.rows.s.length;
}

// -- The fields
function segments(id, items, chosen, change) {
  const button = ([key, name, n]) => {
    const click = () => {
      change(key);
      focusPressed(id);
    };
    const number = n === undefined ? '' : h('small', {}, inWords(n));
    return h('button', { type: 'button', 'aria-pressed': String(key === chosen), click }, name, number);
  };
  fill(id, items.map(button));
}

function drawTools({ base, choices }, columns) {
  const views = Object.entries(VIEWS).filter(([view]) => view === 'answers' || run.methods.length > 1);
  segments('views', views, state.view, view => filter({ view, only: '', sort: '' }));
  if (state.view !== 'pair') {
    const counted = choices.map(([key, name, test]) => [key, name, base.filter(test).length]);
    segments('only', counted, state.only, only => filter({ only }));
  }
  if (document.activeElement !== $('q')) $('q').value = state.q; // what is typed into is left alone
  drawSelects(columns);
}

function drawSelects(columns) {
  const option = (value, name, chosen) => h('option', { value, selected: value === chosen }, name);
  const methods = run.methods.map(name => option(name, name, state.method));
  fill('method', option('', 'All', state.method), methods);
  const part = ([name, values]) => {
    const options = values.map(value => option(`${name}=${value}`, value, state.group));
    return h('optgroup', { label: name }, options);
  };
  fill('group', option('', 'All', state.group), run.data.facets.map(part));
  const ways = columns.flatMap(c => [
    option(c.key, `${c.name} ↑`, state.sort),
    option(`-${c.key}`, `${c.name} ↓`, state.sort),
  ]);
  fill('sort', option('', state.view === 'pair' ? 'where they differ' : 'wrong first', state.sort), ways);
}

// -- The rows
function header(c) {
  const up = shownSort(state) === c.key;
  const down = shownSort(state) === `-${c.key}`;
  const click = () => {
    filter({ sort: nextSort(state, c) });
    const heads = [...document.querySelectorAll('#rows thead button')];
    heads.find(button => button.dataset.sort === c.key)?.focus();
  };
  const inside = [h('span', {}, c.name), up ? '▲' : down ? '▼' : ''];
  const properties = {
    scope: 'col',
    role: 'columnheader',
    class: `${c.num ? 'n' : ''} ${c.p ?? ''}`,
    title: c.title,
    'aria-sort': up ? 'ascending' : down ? 'descending' : null,
  };
  const th = h('th', properties, h('button', { type: 'button', 'data-sort': c.key, click }, inside));
  if (c.w) th.style.width = `${c.w}rem`;
  return th;
}

function drawTable(columns) {
  const size = +state.size;
  const part = list.slice((state.page - 1) * size, state.page * size);
  const td = (c, item) => {
    const classes = [c.num ? 'n' : '', c.at ?? '', c.p ?? ''].join(' ');
    const name = c.label ?? (c.num ? c.name.toLowerCase() : null);
    return h('td', { role: 'cell', class: classes, 'data-name': name }, c.make(item));
  };
  const tr = item =>
    h(
      'tr',
      { role: 'row' },
      columns.map(c => td(c, item)),
    );
  $('frame').className = (state.view === 'questions' ? 'wide' : '') + (part.length ? '' : ' none');
  const head = h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map(header)));
  fill('rows', head, h('tbody', { role: 'rowgroup' }, part.map(tr)));
  const first = $('rows').querySelector('tbody a');
  if (first) first.tabIndex = 0;
}

// -- What is shown, in words
function whyNothing(filtered) {
  if (filtered) return 'Nothing passes these filters. ';
  return state.view === 'pair' ? 'No question has a score by both methods. ' : 'Nothing to show. ';
}

function orderInWords() {
  if (state.sort || run.score.every(x => x === null)) return '';
  return state.view === 'pair' ? ', where the methods differ first' : ', wrong first';
}

function drawCount(before) {
  if (!run.rows.s.length) {
    return fill('count', 'This run has no record yet. Reload when it has answered something.');
  }
  const click = () => {
    $('q').value = '';
    filter({ q: '', method: '', group: '', only: '' });
  };
  const filtered = state.q || state.method || state.group || state.only;
  const clear = filtered ? h('button', { type: 'button', click }, 'Clear filters') : '';
  if (!list.length) return fill('count', whyNothing(filtered), clear);
  const shown = plural(list.length, state.view === 'answers' ? 'answer' : 'question');
  const of = list.length < before ? ` of ${inWords(before)}` : '';
  return fill('count', `${shown}${of}${orderInWords()}. `, clear);
}

// -- Pages of the table
function drawPager() {
  const size = +state.size;
  const last = Math.ceil(list.length / size);
  const at = +state.page;
  $('pager').hidden = list.length <= 50;
  const turn = (name, to, label) => {
    const click = () => {
      go({ page: String(to) });
      $('count').scrollIntoView();
    };
    const properties = { type: 'button', 'aria-label': label, disabled: to < 1 || to > last, click };
    return h('button', properties, name);
  };
  const sizes = SIZES.map(n => h('option', { value: n, selected: n === state.size }, n));
  const choice = h('select', {}, sizes);
  choice.addEventListener('change', () => filter({ size: choice.value }));
  const [from, to] = [(at - 1) * size + 1, Math.min(list.length, at * size)].map(n => inWords(n));
  fill(
    'pager',
    turn('«', at > 1 ? 1 : 0, 'First page'),
    turn('‹ Back', at - 1, 'Previous page'),
    h('span', {}, `${from} – ${to} of ${inWords(list.length)}`),
    turn('More ›', at + 1, 'Next page'),
    turn('»', at < last ? last : 0, 'Last page'),
    h('label', {}, 'Rows', choice),
  );
}

// -- One answer
// A dialog above the table: the browser keeps the focus in it and gives it back afterwards. The episode comes in
// a frame of its own that may not reach this page.
function drawOne() {
  const box = $('one');
  const i = run.at.get(state.open) ?? -1;
  if (i < 0) {
    if (box.open) box.close();
    fill('episode');
    return;
  }
  const s = run.rows.s[i];
  drawTurns(i);
  fill('question', run.samples.question[s]);
  fill(
    'others',
    answersTo(run, s).map(k => otherAnswer(k, k === i)),
  );
  drawFacts(i, s);
  drawEpisode(i);
  if (!box.open) box.showModal();
}

function drawTurns(i) {
  const trail = trailOf(run, state, list, i);
  const k = trail.indexOf(i);
  const turns = { back: k - 1, next: k + 1 };
  for (const [id, to] of Object.entries(turns)) {
    const there = k >= 0 && to >= 0 && to < trail.length;
    $(id).disabled = !there;
    $(id).onclick = () => there && go({ open: run.rows.key[trail[to]] }, true);
  }
  fill('place', k < 0 ? 'not in this list' : `${inWords(k + 1)} of ${inWords(trail.length)}`);
}

function otherAnswer(i, isHere) {
  const result = resultOf(run, i);
  const click = () => {
    go({ open: run.rows.key[i] }, true);
    focusPressed('others');
  };
  const properties = { type: 'button', class: result, 'aria-pressed': String(isHere), title: NAMES[result] };
  return h('button', { ...properties, click }, `${MARKS[result]} ${run.methods[run.rows.m[i]]}`);
}

function fact(name, value, more) {
  if (value === '' || value === null || value === undefined) return null;
  return h('div', {}, h('dt', {}, name), h('dd', { class: more, dir: 'auto' }, value));
}

function drawFacts(i, s) {
  const { rows, samples, data } = run;
  const { id, doc, gold, facets } = samples;
  fill(
    'facts',
    fact('Result', chip(i)),
    fact(rows.outcome[i] === 'failed' ? 'Error' : 'Answer', rows.answer[i] || `(${rows.outcome[i]})`, 'big'),
    fact('Gold', gold[s], 'big'),
    fact('Page', page(i)),
    data.metrics.slice(1).map(([name], k) => fact(name, inWords(rows.scores[k + 1][i], 2))),
    fact('Tokens', rows.tokens[i] === 0 ? 'no model' : inWords(rows.tokens[i])),
    fact('Calls', inWords(rows.calls[i])),
    fact('Seconds', inWords(rows.seconds[i], 2)),
    fact('Confidence', inWords(rows.confidence[i], 2)),
    fact('Attempt', rows.attempt[i] > 1 ? rows.attempt[i] : ''),
    data.facets.map(([name, values], f) => fact(name, values[facets[f][s]])),
    fact('Sample', id[s]),
    fact('Document', doc[s] === id[s] ? '' : doc[s]),
  );
}

// The frame is kept while its episode is the one that is shown.
function drawEpisode(i) {
  const { file, key } = run.rows;
  const isThere = !file || file[i];
  const path = `episodes/${key[i]}.html`;
  $('alone').hidden = !isThere;
  $('alone').href = path;
  if (!isThere) {
    const how = '`cosee view RUN --export FOLDER --episodes all` writes them all.';
    fill('episode', h('p', {}, `The page of this answer was not exported. ${how}`));
  } else if ($('episode').firstChild?.dataset.path !== path) {
    const rights = { sandbox: 'allow-scripts', referrerpolicy: 'no-referrer' };
    const title = 'The episode, or the calls';
    fill('episode', h('iframe', { src: path, 'data-path': path, ...rights, title }));
  }
}

// -- Keys
// Arrows go from row to row (and from method to method where a row has several links), over the end of a page to
// the next one.
const STEPS = {
  ArrowDown: [1, 0],
  ArrowUp: [-1, 0],
  ArrowRight: [0, 1],
  ArrowLeft: [0, -1],
  End: [1e9, 0],
  Home: [-1e9, 0],
};
const linksOf = row => [...row.querySelectorAll('a[data-key]')];

function focus(a) {
  for (const other of $('rows').querySelectorAll('a[tabindex="0"]')) other.tabIndex = -1;
  a.tabIndex = 0;
  a.focus();
  a.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

function move(a, down, right) {
  const rows = [...$('rows').tBodies[0].rows].filter(row => linksOf(row).length);
  const at = rows.indexOf(a.closest('tr'));
  const place = linksOf(rows[at]).indexOf(a);
  const to = rows[at + down];
  if (to) {
    const links = linksOf(to);
    focus(links[Math.max(0, Math.min(links.length - 1, place + right))]);
  } else if (!turnPage(down)) {
    focus(linksOf(rows.at(down > 0 ? -1 : 0))[place]);
  }
}

// One step over the end of a page; false where there is no other page, or the step is a jump.
function turnPage(down) {
  const to = +state.page + down;
  if (Math.abs(down) !== 1 || to < 1 || to > Math.ceil(list.length / +state.size)) return false;
  go({ page: String(to) });
  focus([...$('rows').querySelectorAll('tbody a')].at(down > 0 ? 0 : -1));
  return true;
}

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { key, target } = event;
  const a = target.closest?.('#rows tbody a');
  const isTyping = /^(INPUT|SELECT)$/.test(target.tagName);
  if ($('one').open) {
    const turn = { ArrowLeft: 'back', ArrowRight: 'next' }[key];
    if (turn) $(turn).click();
  } else if (a && STEPS[key]) {
    event.preventDefault();
    move(a, ...STEPS[key]);
  } else if (key === '/' && !isTyping && run) {
    event.preventDefault();
    $('q').focus();
  }
});

// -- Fields and clicks
let later = 0;
let opener = ''; // key of the row that opened the dialog

$('q').addEventListener('input', () => {
  clearTimeout(later);
  const wait = run?.rows.s.length > 5000 ? 120 : 20;
  later = setTimeout(() => filter({ q: $('q').value }, true), wait);
});
for (const id of ['method', 'group', 'a', 'b', 'sort']) {
  $(id).addEventListener('change', () => filter({ [id]: $(id).value }));
}
$('rows').addEventListener('click', event => {
  const row = event.target.closest('tbody tr');
  const isOther = event.ctrlKey || event.metaKey || event.shiftKey || event.button;
  if (!row || isOther || String(getSelection())) return; // a new tab, or text that is marked
  const a = event.target.closest('a[data-key]') ?? linksOf(row)[0];
  if (!a) return;
  event.preventDefault();
  opener = a.dataset.key;
  go({ open: opener });
});

// A dialog that closes, by its button, by Escape or by a click beside it, gives the focus back to its row.
$('close').addEventListener('click', () => $('one').close());
$('one').addEventListener('close', () => {
  const key = state.open;
  if (!key) return;
  go({ open: '' });
  const links = [...$('rows').querySelectorAll('tbody a')];
  const its = name => links.find(a => a.dataset.key === name);
  const a = its(key) ?? its(opener);
  if (a) focus(a);
});
$('one').addEventListener('click', event => {
  if (event.target === $('one')) $('one').close();
});
for (const kind of ['hashchange', 'popstate']) addEventListener(kind, () => run && show());

// -- The beginning
// Data stand in the page itself (an exported folder, which has to work without a server), or are fetched from
// where the page came from. Reading again keeps the state: filters stay where they are.
function begin(data) {
  run = indexed(data);
  document.title = `${data.title}: CoSee`;
  fill('title', data.title);
  fill(
    'about',
    data.about.map(text => h('span', { dir: 'auto' }, text)),
  );
  fill(
    'notices',
    data.notices.map(text => h('p', { class: 'notice', dir: 'auto' }, text)),
  );
  $('report').hidden = !data.report;
  $('reload').hidden = !data.served;
  show();
  performance.mark('rows');
}

async function load() {
  try {
    const answered = await fetch('data.json', { cache: 'no-cache' });
    const said = await answered.json();
    if (said.error) throw new Error(said.error.message);
    begin(said);
  } catch (error) {
    const what = run ? 'The records could not be read again' : 'The records could not be read';
    fill('count', what, ` (${error.message}). Is \`cosee view\` still running?`);
  }
}

$('reload').addEventListener('click', load);
const here = $('data').textContent.trim();
if (here) begin(JSON.parse(here));
else load();
