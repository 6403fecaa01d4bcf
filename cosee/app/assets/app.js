// The page in which people ask. What is known stands in a few variables; what is shown of an episode is a section
// that the server makes, the same as in the page of an episode. All other texts become text nodes.
import { $, all, fill, first, h, isNothing } from '../../view/assets/elements.mjs';
import { renew, setup } from '../../view/assets/section.mjs';
import { inWords } from '../../view/assets/words.mjs';
import { showError, withErrorMessage } from './errors.mjs';
import { settingsForm } from './forms.mjs';
import { historyOf } from './history.mjs';
import { imageCacheOf } from './image_cache.mjs';
import {
  addressOf,
  answerInWords,
  colourOf,
  costInWords,
  helpFor,
  isOver,
  moneyInWords,
  QUIET,
  readAddress,
  take,
  timeInWords,
  within,
} from './logic.mjs';
import { noteFormOf } from './note_form.mjs';
import { pageViewOf } from './page_view.mjs';
import { fileOf, followed, refresher, server } from './server.mjs';
import { sideBySideOf } from './side_by_side.mjs';
import { startPageOf } from './start_page.mjs';
import { thumbnailsOf } from './thumbnails.mjs';

// -- What is known
let start = null; // what the server offers
let doc = null; // the document that is open
let episode = null; // what is shown of it
let now = QUIET; // how far it is
let page = 1;
let asked = []; // episodes about this document, the latest first
let wanted = ''; // the episode that was asked for last
let unfollow = () => {};

const isShown = id => wanted === id && episode?.id === id;
const desk = $('desk');
const imageCache = imageCacheOf($('image-cache'));
const pageView = pageViewOf($('page-view'), $('scale'), box => noteForm.setBox(box));
const noteForm = noteFormOf(pageView);
const thumbnails = thumbnailsOf($('thumbnails'), $('track'), look);
const sideBySide = sideBySideOf(imageCache, settings => forms.a.inWords(settings));
const others = []; // agents beside the usual ones, for their colours
let forms = null;

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
const begin = withErrorMessage(async () => {
  leave();
  start = await server.start();
  showPart('start');
  document.title = 'CoSee';
  remember();
  startPage.show(start);
});

// -- A document
function leave() {
  unfollow();
  unfollow = () => {};
  [doc, episode, now, page, asked, wanted] = [null, null, QUIET, 1, [], ''];
  imageCache.clear();
}

async function opened(found, chosen = {}) {
  leave();
  doc = found;
  document.title = `${doc.name} · CoSee`;
  $('name').textContent = doc.name;
  $('of').textContent = `of ${inWords(doc.pages)}`;
  $('password').value = '';
  $('left-box').hidden = !doc.left_out.length;
  $('left-said').textContent = inWords(doc.left_out.length);
  $('left').textContent = doc.left_out.join('; ');
  clear();
  showPart('desk');
  thumbnails.open(doc);
  look(chosen.page ?? 1);
  if (matchMedia('(pointer: fine)').matches) $('question').focus();
  await listAsked();
  const id = chosen.episode || asked[0]?.id;
  if (id && doc === found && !wanted) await show(id, chosen.page);
}

const openDocument = withErrorMessage(async (id, chosen) => opened(await server.document(id), chosen));
const openPath = withErrorMessage(async name => {
  const { id } = await server.open(name, $('password').value);
  await opened(await server.document(id));
});
const upload = withErrorMessage(async file => {
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
  imageCache.need(doc, [page, evidencePage()], pageView.width());
}

function look(to, isQuiet = false) {
  if (!doc) return;
  page = within(to, doc.pages);
  needPictures();
  pageView.show(figureOf(page), doc, page);
  thumbnails.at(page);
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
  for (const id of ['after', 'help', 'running', 'by-hand']) $(id).hidden = true;
  $('told').textContent = '';
  pageView.draw(false);
  thumbnails.mark({ notes: new Map(), evidence: new Set(), looking: null });
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
    pageView.show(figureOf(page), doc, page);
    return desk;
  });
  const numbers = templates.map(t => [Number(t.dataset.figure), Number(t.dataset.notes)]);
  const rests = [evidencePage(), ...all('.chip[href]', $('answer')).map(pageOf)];
  thumbnails.mark({ notes: new Map(numbers), evidence: new Set(rests.filter(Boolean)) });
  noteForm.listTargets();
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
    const tokens = now.tokens ? `, ${inWords(now.tokens)} tokens` : '';
    $('elapsed').textContent = `${Math.round((performance.now() - began) / 1000)} s${tokens}`;
  }, 500);
  const hear = withErrorMessage(async told => {
    if (!isShown(id)) return;
    now = take(now, told);
    drawRunning();
    if (!['waiting', 'text'].includes(told.kind)) await refresh();
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
  $('draft').textContent = now.draft;
  $('draft').hidden = !now.draft;
  $('read').hidden = now.read === null;
  $('read').value = now.read ?? 0;
  const { looking } = now;
  thumbnails.mark({ looking: looking && { ...looking, colour: colourOf(looking.agent, others) } });
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
  const name = episode.settings.client || start.models[0].name;
  const about = start.models.find(model => model.name === name)?.about || name;
  $('by').textContent = [`Who answered: ${about}`, moneyInWords(episode)].filter(Boolean).join(', ');
  for (const form of ['html', 'md', 'json']) $(`as-${form}`).href = fileOf(episode.id, form);
  drawHelp();
}

function drawHelp() {
  const help = helpFor(episode, start);
  const button = (words, click) => h('button', { type: 'button', click }, words);
  const steps = help?.steps.map(({ words, settings }) => button(words, () => askAgain(settings))) ?? [];
  if (episode.right === false && !$('note').disabled) {
    const correct = () => {
      noteForm.show(true);
      $('note-answer').focus();
    };
    steps.unshift(button('Say what is right', correct));
  }
  $('help').hidden = !help || !(help.said || steps.length);
  $('help-said').textContent = help?.said ?? '';
  fill('help-steps', steps);
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
      withErrorMessage(show)(e.id);
    };
    const href = addressOf({ document: doc.id, episode: e.id, page: 1 });
    const said = h('b', {}, `${mark}${e.state === 'done' ? answerInWords(e).slice(0, 60) : e.state}`);
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

const ask = withErrorMessage(async () => {
  if (!$('question').value.trim()) {
    $('question').focus();
    throw new Error('Type a question first.');
  }
  if ($('go').disabled) return null;
  $('go').disabled = true;
  try {
    const made = await askOne(forms.a.read());
    if (!$('b-box').hidden) return showPair(made, await askOne(forms.b.read()));
    asked = [made, ...asked];
    return await show(made.id);
  } finally {
    $('go').disabled = false;
  }
});

const askAgain = withErrorMessage(async settings => {
  $('question').value = episode.question;
  forms.a.write(settings);
  await ask();
});

// -- By hand
const noted = withErrorMessage(async goOn => {
  const [notes, of] = [[noteForm.read(page)], episode];
  const more = { question: of.question, earlier: of.id, notes };
  const made = goOn ? await askOne(of.settings, more) : await server.notes(of.id, notes);
  noteForm.clear();
  await listAsked();
  await show(made.id);
  $('note').setAttribute('aria-expanded', 'false');
  $('question').focus();
});

// -- Side by side
function showPair(a, b) {
  unfollow();
  showPart('pair');
  sideBySide.show(a, b, doc);
  unfollow = () => {
    sideBySide.close();
  };
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
  n: () => !$('after').hidden && !$('note').disabled && noteForm.show($('by-hand').hidden),
  h: () => openHistory(),
  '+': () => pageView.by(1.25),
  '=': () => pageView.by(1.25),
  '-': () => pageView.by(0.8),
  0: () => pageView.fit(),
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
  else if (!$('by-hand').hidden) noteForm.show(false);
  else if (!$('running').hidden) stopIt();
}

const stopIt = withErrorMessage(async () => {
  $('stop').disabled = true;
  $('doing').textContent = 'stopping after this turn';
  await server.stop(episode.id);
});

const closePair = withErrorMessage(async () => {
  const shown = sideBySide.close();
  unfollow = () => {};
  showPart('desk');
  await listAsked();
  await show(shown.id);
});

const marked = right =>
  withErrorMessage(async () => {
    episode = await server.mark(episode.id, episode.right === right ? null : right);
    asked = asked.map(e => (e.id === episode.id ? episode : e));
    drawAsked();
    ended();
  });

const startPage = startPageOf({ openDocument, openPath, reload: begin });

const openHistory = historyOf(
  withErrorMessage(async e => {
    if (doc?.id === e.document && $('pair').hidden) return show(e.id);
    return openDocument(e.document, { episode: e.id });
  }),
  withErrorMessage(async (a, b) => {
    if (doc?.id !== a.document) await openDocument(a.document, { episode: a.id });
    if (doc?.id === a.document) showPair(a, b);
  }),
  showError,
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
  smaller: () => pageView.by(0.8),
  larger: () => pageView.by(1.25),
  fit: () => pageView.fit(),
  stop: stopIt,
  right: marked(true),
  wrong: marked(false),
  again: () => {
    $('question').value = episode.question;
    ask();
  },
  note: () => noteForm.show($('by-hand').hidden),
  'note-box': () => pageView.place(),
  'note-keep': () => noted(false),
  'note-cancel': () => noteForm.show(false),
  'pair-close': closePair,
  'pair-stop': () => sideBySide.stop(),
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
const restore = withErrorMessage(async () => {
  const said = readAddress(location.hash);
  if (!said.document) return begin();
  if (said.document === doc?.id) return null;
  const at = location.hash.includes('p=') ? said.page : undefined;
  await openDocument(said.document, { episode: said.episode, page: at });
  return doc ? null : begin();
});

const main = withErrorMessage(async () => {
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
