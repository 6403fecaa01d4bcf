// The page in which people ask. What is known stands in a few variables; what is shown of an episode is a section
// that the server makes, the same as in the page of an episode. All other texts become text nodes.
import { $, all, fill, first, h, isNothing } from '../../view/assets/elements.mjs';
import { parsed, renew, setup } from '../../view/assets/section.mjs';
import { holdsAll, inWords, plural, wordsOf } from '../../view/assets/words.mjs';
import { settingsForm } from './forms.mjs';
import { historyOf } from './history.mjs';
import {
  addressOf,
  answerInWords,
  colourOf,
  costInWords,
  isOver,
  pairInWords,
  QUIET,
  readAddress,
  readingInWords,
  take,
  timeInWords,
  tokensInWords,
  within,
} from './logic.mjs';
import { fileOf, followed, server } from './server.mjs';
import { poolOf, stageOf } from './stage.mjs';
import { stripOf } from './strip.mjs';

// -- What is known
let start = null; // what the server offers
let doc = null; // the document that is open
let episode = null; // what is shown of it
let now = QUIET; // how far it is
let page = 1;
let asked = []; // episodes about this document, the latest first
let box = null; // of a note by hand
let pair = null; // two episodes side by side
let wanted = ''; // the episode that was asked for last
let unfollow = () => {};

const isShown = id => wanted === id && episode?.id === id;
const desk = $('desk');
const pool = poolOf($('pool'));
const stage = stageOf($('stage'), $('scale'), drawn => {
  box = drawn;
});
const strip = stripOf($('strip'), $('track'), look);
const others = []; // agents beside the usual ones, for their colours
let forms = null;

// -- Faults
function fault(text = '') {
  $('fault').textContent = text;
  $('fault').hidden = !text;
}

// What a button does may fail; then it says why, and the page stays as it is.
const careful =
  action =>
  async (...args) => {
    fault();
    try {
      return await action(...args);
    } catch (error) {
      fault(error.message);
      return null;
    }
  };

// -- Which part of the page is shown
function showPart(part) {
  for (const id of ['start', 'desk', 'pair']) $(id).hidden = id !== part;
  $('to-start').hidden = part === 'start';
  $('name').hidden = part === 'start';
}

// The token of the address is a cookie by now, and need not stand there any longer.
function remember() {
  const address = addressOf({ document: doc?.id ?? '', episode: episode?.id ?? '', page });
  if (address !== location.hash || location.search)
    history.replaceState(null, '', location.pathname + address);
}

// -- The beginning
const MOST_LISTED = 200;

function pick(name, beside, click, ...more) {
  const button = h(
    'button',
    { type: 'button', click },
    h('span', { dir: 'auto' }, name),
    h('small', {}, beside),
  );
  return h('li', {}, button, ...more);
}

// What was handed in is deleted, at the second click; what was asked about it stays.
function away({ id, name, kind }) {
  const what = kind === 'upload' ? 'Delete' : 'Close';
  const click = careful(async () => {
    if (button.textContent === '✕') {
      button.textContent = `${what}?`;
      return;
    }
    await server.remove(id);
    await begin();
  });
  const button = h('button', { type: 'button', class: 'away', 'aria-label': `${what} ${name}`, click }, '✕');
  button.addEventListener('blur', () => {
    button.textContent = '✕';
  });
  return button;
}

const pickOpen = d => pick(d.name, plural(d.pages, 'page'), () => openDocument(d.id), away(d));

function listFiles() {
  const words = wordsOf($('find').value);
  const found = start.files.filter(name => holdsAll(words, name.toLowerCase()));
  fill(
    'files',
    found.slice(0, MOST_LISTED).map(name => pick(name, '', () => openPath(name))),
  );
  const more = found.length - MOST_LISTED;
  fill(
    'more-files',
    more > 0 ? `${inWords(more)} more: type a part of the name` : found.length ? '' : 'No such file.',
  );
}

const begin = careful(async () => {
  leave();
  start = await server.start();
  showPart('start');
  document.title = 'CoSee';
  remember();
  const most = Math.floor(start.upload_bytes / 1e6);
  fill('limits', `At most ${inWords(most)} MB and ${inWords(start.pages)} pages.`);
  $('below').hidden = !start.files.length;
  $('recent').hidden = !start.documents.length;
  listFiles();
  fill('documents', start.documents.slice(0, 50).map(pickOpen));
});

// -- A document
function leave() {
  unfollow();
  unfollow = () => {};
  [doc, episode, now, page, asked, pair, wanted] = [null, null, QUIET, 1, [], null, ''];
  pool.clear();
}

async function opened(found, chosen = {}) {
  leave();
  doc = found;
  document.title = `${doc.name} · CoSee`;
  $('name').textContent = doc.name;
  $('of').textContent = `of ${inWords(doc.pages)}`;
  $('password').value = '';
  clear();
  showPart('desk');
  strip.open(doc);
  look(chosen.page ?? 1);
  if (matchMedia('(pointer: fine)').matches) $('question').focus();
  await listAsked();
  const id = chosen.episode || asked[0]?.id;
  if (id && doc === found && !wanted) await show(id, chosen.page);
}

const openDocument = careful(async (id, chosen) => opened(await server.document(id), chosen));
const openPath = careful(async name => {
  const { id } = await server.open(name, $('password').value);
  await opened(await server.document(id));
});
const upload = careful(async file => {
  if (!file) return;
  if (file.size > start.upload_bytes) {
    throw new Error(
      `${file.name} has more than the ${inWords(Math.floor(start.upload_bytes / 1e6))} MB allowed.`,
    );
  }
  $('drop').classList.add('busy');
  try {
    const { id } = await server.upload(file, $('password').value);
    await opened(await server.document(id));
  } finally {
    $('drop').classList.remove('busy');
    $('file').value = '';
  }
});

// -- A page
// The figure of a page waits in a template where it has notes; the pictures of a few pages are held.
function figureOf(number) {
  const template = first(`template[data-figure="${number}"]`, desk);
  return template ? template.content.firstElementChild.cloneNode(true) : null;
}

function evidencePage() {
  const used = first('.snippet use', desk)?.getAttribute('href') ?? '';
  return Number(used.replace('#page', '')) || 0;
}

function needPictures() {
  pool.need(doc, [page, evidencePage()], stage.width());
}

function look(to, isQuiet = false) {
  if (!doc) return;
  page = within(to, doc.pages);
  needPictures();
  stage.show(figureOf(page), doc, page);
  strip.at(page);
  $('page').value = page;
  $('back').disabled = page <= 1;
  $('next').disabled = page >= doc.pages;
  $('note-page').textContent = `on page ${page}`;
  if (!isQuiet) setup(desk, desk.state);
  remember();
}

// -- An episode
function clear() {
  for (const id of ['answer', 'replay', 'board', 'calls']) fill(id);
  for (const template of all('template[data-figure]', desk)) template.remove();
  [$('after').hidden, $('running').hidden, $('by-hand').hidden] = [true, true, true];
  $('told').textContent = '';
  stage.draw(false);
  strip.mark({ notes: new Map(), evidence: new Set(), looking: null });
}

// Put the parts of a section where they belong.
function put(section) {
  const slots = { answer: '.answer', replay: '.replay', board: '.notes', calls: '.calls' };
  const templates = all('template[data-figure]', section);
  renew(desk, () => {
    for (const [id, part] of Object.entries(slots)) fill(id, first(part, section));
    for (const template of all('template[data-figure]', desk)) template.remove();
    desk.append(...templates);
    needPictures();
    stage.show(figureOf(page), doc, page);
    return desk;
  });
  const numbers = templates.map(t => [Number(t.dataset.figure), Number(t.dataset.notes)]);
  const rests = [evidencePage(), ...all('.chip[href]', $('answer')).map(pageOf)];
  strip.mark({ notes: new Map(numbers), evidence: new Set(rests.filter(Boolean)) });
  targets();
}

// One request at a time; what happens meanwhile asks for one more. Who asks waits until the latest is shown.
function refresher(id, prefix, take) {
  let asking = null;
  let isStale = false;
  const work = async () => {
    try {
      do {
        isStale = false;
        const section = parsed(await server.section(id, prefix));
        if (section) take(section);
      } while (isStale);
    } catch (error) {
      fault(error.message);
    }
    asking = null;
  };
  return () => {
    isStale = asking !== null;
    asking ??= work();
    return asking;
  };
}

// What was asked for last is shown, whichever answer of the server comes first.
async function show(id, at) {
  unfollow();
  wanted = id;
  const found = await server.episode(id);
  if (wanted !== id) return null;
  if (found.document !== doc?.id) return openDocument(found.document, { episode: id, page: at });
  episode = found;
  clear();
  $('question').value = episode.question;
  forms.a.write(episode.settings);
  now = { ...QUIET, state: episode.state };
  remember();
  drawAsked();
  const refresh = refresher(id, 'q1', section => isShown(id) && put(section));
  if (!isOver(episode.state)) return follow(id, refresh);
  await refresh();
  if (!isShown(id)) return null;
  ended();
  if (at === undefined && episode.page) look(episode.page);
  return null;
}

function follow(id, refresh) {
  const began = performance.now();
  $('stop').disabled = false;
  const clock = setInterval(() => {
    $('elapsed').textContent = `${Math.round((performance.now() - began) / 1000)} s`;
  }, 500);
  const hear = careful(async told => {
    if (!isShown(id)) return;
    now = take(now, told);
    drawRunning();
    if (told.kind !== 'waiting') await refresh();
    if (!isShown(id)) return;
    const goal = $('follow').checked && ['turn', 'answer', 'ended'].includes(told.kind) ? now.goto : null;
    if (goal && goal !== page) look(goal);
    if (told.kind === 'ended') await over(id);
  });
  const stop = followed(id, hear);
  unfollow = () => {
    clearInterval(clock);
    stop();
  };
  drawRunning();
  refresh();
}

async function over(id) {
  unfollow();
  const found = await server.episode(id);
  if (!isShown(id)) return;
  episode = found;
  ended();
  tell();
  await listAsked();
}

// What came out, for who does not see it.
function tell() {
  const at = episode.page ? `, on page ${episode.page}` : '';
  const sure = isNothing(episode.confidence) ? '' : `, ${Math.round(100 * episode.confidence)} percent sure`;
  $('told').textContent = `The answer: ${answerInWords(episode)}${at}${sure}.`;
}

function drawRunning() {
  $('running').hidden = isOver(now.state);
  $('doing').textContent = now.doing;
  $('read').hidden = now.read === null;
  $('read').value = now.read ?? 0;
  const { looking } = now;
  strip.mark({ looking: looking && { ...looking, colour: colourOf(looking.agent, others) } });
}

function ended() {
  drawRunning();
  const isAnswered = episode.state === 'done';
  $('after').hidden = false;
  for (const id of ['right', 'wrong']) {
    $(id).setAttribute('aria-pressed', String(episode.right === (id === 'right')));
    $(id).disabled = !isAnswered;
  }
  $('note').disabled = !first('.note', $('board'));
  for (const form of ['html', 'md', 'json']) $(`as-${form}`).href = fileOf(episode.id, form);
}

// -- Questions about this document
async function listAsked() {
  asked = await server.episodes('', doc.id);
  drawAsked();
}

function drawAsked() {
  const link = e => {
    const isHere = e.id === episode?.id;
    const mark = e.right === true ? '✓ ' : e.right === false ? '✗ ' : '';
    const title = `${answerInWords(e)} (${[timeInWords(e.asked), costInWords(e)].filter(Boolean).join(', ')})`;
    const click = event => {
      event.preventDefault();
      careful(show)(e.id);
    };
    const href = addressOf({ document: doc.id, episode: e.id, page: 1 });
    const said = h('b', {}, `${mark}${e.state === 'done' ? (e.answer ?? '–').slice(0, 40) : e.state}`);
    return h(
      'a',
      { href, title, click, dir: 'auto', 'aria-current': isHere ? 'page' : null },
      said,
      ` ${e.question}`,
    );
  };
  fill('asked', asked.slice(0, 40).map(link));
  $('asked').hidden = asked.length < 2;
}

// -- Asking
const askOne = (settings, more = {}) =>
  server.ask(doc.id, { question: $('question').value.trim(), settings, ...more });

const ask = careful(async () => {
  if (!$('question').value.trim()) {
    $('question').focus();
    throw new Error('Type a question first.');
  }
  if ($('go').disabled) return null;
  $('go').disabled = true;
  try {
    if (!$('b-box').hidden) return await compare();
    const made = await askOne(forms.a.read());
    asked = [made, ...asked];
    return await show(made.id);
  } finally {
    $('go').disabled = false;
  }
});

// -- By hand
const chosenNote = () => Number($('note-target').value) || null;

function targets() {
  const kept = $('note-target').value;
  const option = note => {
    const text = `#${note.dataset.c} ${first('.who', note).textContent}: ${first('p', note).textContent}`;
    return h('option', { value: note.dataset.c }, text.slice(0, 70));
  };
  fill('note-target', h('option', { value: '' }, 'nothing'), all('.note', $('board')).map(option));
  $('note-target').value = kept;
}

function writeNote(on) {
  $('by-hand').hidden = !on;
  $('note').setAttribute('aria-expanded', String(on));
  stage.draw(on);
  if (on) $('note-text').focus();
  else $('note').focus();
}

function noteSaid() {
  const [text, answer, corrects] = [$('note-text').value.trim(), $('note-answer').value.trim(), chosenNote()];
  if (!text && !answer) throw new Error('Say what is so, or what the answer is.');
  return { page, text, ...(answer && { answer }), ...(corrects && { corrects }), ...(box && { box }) };
}

const noted = careful(async goOn => {
  const [notes, of] = [[noteSaid()], episode];
  const more = { question: of.question, earlier: of.id, notes };
  const made = goOn ? await askOne(of.settings, more) : await server.notes(of.id, notes);
  for (const id of ['note-text', 'note-answer', 'note-target']) $(id).value = '';
  await listAsked();
  await show(made.id);
  $('note').setAttribute('aria-expanded', 'false');
  $('question').focus();
});

// -- Side by side
const compare = careful(async () => {
  const [a, b] = [await askOne(forms.a.read()), await askOne(forms.b.read())];
  sideBySide(a, b);
});

function sideBySide(a, b) {
  unfollow();
  pair = [a, b];
  showPart('pair');
  const ends = ['one', 'two'].map((id, i) => followSide(id, i));
  unfollow = () => {
    for (const end of ends) end();
  };
  drawPair();
  $('pair-close').focus();
}

function followSide(id, i) {
  const mine = pair[i].id;
  const refresh = refresher(mine, `q${i + 1}`, section => {
    if (pair?.[i].id !== mine) return;
    const head = h('h3', { class: 'which' }, forms.a.inWords(pair[i].settings));
    const figures = all('template[data-figure]', section);
    const main = all('.snippet use', section).map(use =>
      Number(use.getAttribute('href').replace('#page', '')),
    );
    const shown = figures.filter(t => main.includes(Number(t.dataset.figure)));
    renew($(id), () => {
      fill(
        id,
        head,
        first('.answer', section),
        ...shown.map(t => t.content.firstElementChild),
        first('.notes', section),
      );
      return $(id);
    });
    for (const button of all('.enlarge', $(id))) button.remove();
    pool.need(doc, evidencePages(), $(id).clientWidth);
  });
  refresh();
  if (isOver(pair[i].state)) return () => {};
  return followed(
    mine,
    careful(async told => {
      if (!pair) return;
      if (told.kind === 'ended') pair[i] = await server.episode(mine);
      else pair[i].state = take({ ...QUIET, state: pair[i].state }, told).state;
      drawPair();
      await refresh();
    }),
  );
}

const evidencePages = () =>
  all('#pair use').map(use => Number(use.getAttribute('href').replace('#page', '')));

function drawPair() {
  fill('pair-said', pairInWords(...pair));
  $('pair-stop').hidden = pair.every(e => isOver(e.state));
  const percent = x => (isNothing(x) ? '–' : `${Math.round(100 * x)}%`);
  const rows = [
    ...(pair[0].question === pair[1].question ? [] : [['Question', e => e.question]]),
    ['Answer', e => answerInWords(e)],
    ['Confidence', e => percent(e.confidence)],
    ['Page', e => e.page ?? '–'],
    ['Tokens', e => tokensInWords(e) || '–'],
    ['Calls', e => inWords(e.usage?.calls) || '–'],
    ...(pair.some(readingInWords) ? [['Reading', e => readingInWords(e) || '–']] : []),
    ['Seconds', e => (isNothing(e.seconds) ? '–' : inWords(e.seconds, 1))],
    ['Asked', e => timeInWords(e.asked)],
  ];
  const head = pair.map(e => h('th', { scope: 'col', dir: 'auto' }, forms.a.inWords(e.settings)));
  const row = ([name, get]) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, name),
      pair.map(e => h('td', { dir: 'auto' }, get(e))),
    );
  fill('pair-table', h('thead', {}, h('tr', {}, h('td'), head)), h('tbody', {}, rows.map(row)));
}

// -- Clicks on what an episode shows
// Links of a section lead to a page or to a note; in this page both are looked at in place.
function pageOf(link) {
  const id = link.getAttribute('href').slice(1);
  return Number(/^q\dp(\d+)$/.exec(id)?.[1]) || notePage(id);
}

const notePage = id => Number(first('.at', $(id) ?? desk)?.dataset.page) || 0;

function goTo(event) {
  const link = event.target.closest('a[href^="#q"]');
  const note = event.target.closest('.note');
  if (link) {
    event.preventDefault();
    const goal = $(link.getAttribute('href').slice(1));
    const to = pageOf(link);
    if (to) look(to);
    if (goal?.matches('.note')) {
      goal.focus({ preventScroll: true });
      goal.scrollIntoView({ block: 'nearest' });
    }
  } else if (note && desk.contains(note)) look(notePage(note.id));
  else if (event.target.closest('.snippet')) look(evidencePage());
}

// -- Keys
const typing = target => target.matches('input, textarea, select');
const KEYS = {
  '/': () => $('question').focus(),
  n: () => !$('after').hidden && !$('note').disabled && writeNote($('by-hand').hidden),
  h: () => openHistory(),
  '+': () => stage.by(1.25),
  '=': () => stage.by(1.25),
  '-': () => stage.by(0.8),
  0: () => stage.fit(),
  PageDown: () => look(page + 1),
  PageUp: () => look(page - 1),
  '?': () => $('keys').showModal(),
};

function pressed(event) {
  if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  const { key, target } = event;
  if (first('dialog[open]')) return;
  if (key === 'Escape') return escaped();
  if (typing(target) || !KEYS[key] || (!doc && key !== 'h' && key !== '?')) return;
  event.preventDefault();
  KEYS[key]();
}

function escaped() {
  if (!$('pair').hidden) closePair();
  else if (!$('by-hand').hidden) writeNote(false);
  else if (!$('running').hidden) stopIt();
}

const stopIt = careful(async () => {
  $('stop').disabled = true;
  $('doing').textContent = 'stopping after this turn';
  await server.stop(episode.id);
});

const closePair = careful(async () => {
  const [a] = pair;
  unfollow();
  pair = null;
  showPart('desk');
  for (const id of ['one', 'two']) fill(id);
  await listAsked();
  await show(a.id);
});

const marked = right =>
  careful(async () => {
    episode = await server.mark(episode.id, episode.right === right ? null : right);
    asked = asked.map(e => (e.id === episode.id ? episode : e));
    drawAsked();
    ended();
  });

const openHistory = historyOf(
  careful(async e => {
    if (doc?.id === e.document && $('pair').hidden) return show(e.id);
    return openDocument(e.document, { episode: e.id });
  }),
  careful(async (a, b) => {
    if (doc?.id !== a.document) await openDocument(a.document, { episode: a.id });
    if (doc?.id === a.document) sideBySide(a, b);
  }),
  fault,
  settings => forms.a.inWords(settings),
);

// -- Everything together
const CLICKS = {
  'to-start': begin,
  'to-history': openHistory,
  'to-keys': () => $('keys').showModal(),
  'keys-close': () => $('keys').close(),
  back: () => look(page - 1),
  next: () => look(page + 1),
  smaller: () => stage.by(0.8),
  larger: () => stage.by(1.25),
  fit: () => stage.fit(),
  stop: stopIt,
  right: marked(true),
  wrong: marked(false),
  again: () => {
    $('question').value = episode.question;
    ask();
  },
  note: () => writeNote($('by-hand').hidden),
  'note-box': () => stage.place(),
  'note-keep': () => noted(false),
  'note-cancel': () => writeNote(false),
  'pair-close': closePair,
  'pair-stop': careful(async () => {
    await Promise.all(pair.map(e => server.stop(e.id)));
  }),
  compare: () => {
    const on = $('b-box').hidden;
    $('b-box').hidden = !on;
    $('compare').setAttribute('aria-expanded', String(on));
    $('compare').textContent = on ? 'Only one' : 'Compare …';
    $('go').textContent = on ? 'Ask both' : 'Ask';
    if (on) first('select', $('b')).focus();
  },
};

function listen() {
  for (const [id, click] of Object.entries(CLICKS)) $(id).addEventListener('click', click);
  desk.addEventListener('click', goTo);
  document.addEventListener('keydown', pressed);
  $('find').addEventListener('input', listFiles);
  $('file').addEventListener('change', () => upload($('file').files[0]));
  $('page').addEventListener('change', () => look(Number($('page').value)));
  $('drop').addEventListener('submit', event => event.preventDefault());
  $('ask').addEventListener('submit', event => {
    event.preventDefault();
    ask();
  });
  $('by-hand').addEventListener('submit', event => {
    event.preventDefault();
    noted(true);
  });
  $('question').addEventListener('keydown', event => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $('ask').requestSubmit();
  });
  for (const kind of ['dragover', 'drop']) addEventListener(kind, event => event.preventDefault());
  addEventListener('drop', event => start && upload(event.dataTransfer.files[0]));
  addEventListener('hashchange', () => restore());
}

// What the address names, if it is still there; else the beginning.
const restore = careful(async () => {
  const said = readAddress(location.hash);
  if (!said.document) return begin();
  if (said.document === doc?.id) return null;
  const at = location.hash.includes('p=') ? said.page : undefined;
  await openDocument(said.document, { episode: said.episode, page: at });
  return doc ? null : begin();
});

const main = careful(async () => {
  document.documentElement.classList.add('js');
  start = await server.start();
  forms = {
    a: settingsForm($('a'), start, $('a-said')),
    b: settingsForm($('b'), start, $('b-said')),
  };
  listen();
  await restore();
});
main();
