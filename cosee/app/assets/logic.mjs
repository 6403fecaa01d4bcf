// What the app computes. No function here touches the page, so that each can be tested without a browser.
import { plural } from '../../view/assets/words.mjs';

// -- Thumbnails
// Thumbnails stand in a row of cells of one size. `at` is how far it is scrolled, `room` what is in sight.
export function cellsInSight(at, room, cell, count, spare = 2) {
  const first = Math.max(0, Math.floor(at / cell) - spare);
  const last = Math.min(count, Math.ceil((at + room) / cell) + spare);
  return { first: Math.min(first, count), last: Math.max(last, Math.min(first, count)) };
}

// Where to scroll so that a cell is wholly in sight; where it is already, nothing changes.
export function scrolledTo(index, at, room, cell) {
  const start = index * cell;
  if (start < at) return start;
  return start + cell > at + room ? start + cell - room : at;
}

export const within = (page, count) => Math.min(Math.max(1, Math.round(page) || 1), Math.max(1, count));

// The page that a key leads to among the thumbnails; null for another key.
export function pageByKey(key, page, count, jump = 10) {
  const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: jump, PageUp: -jump };
  if (key === 'Home') return 1;
  if (key === 'End') return count;
  return key in steps ? within(page + steps[key], count) : null;
}

// -- Pictures
// The pages whose large pictures are held: those that are needed now, and at most one that was.
export function heldPages(needed, held, most = 4) {
  const now = [...new Set(needed)].slice(0, most);
  const before = held.filter(page => !now.includes(page)).slice(-1);
  return [...now, ...(now.length < most ? before : [])];
}

// The longest side of a picture: as large as it is shown, in steps, so that few sizes are made.
export function sideFor([width, height], shown, density = 1) {
  const wanted = Math.ceil(shown * Math.min(density, 2) * Math.max(1, height / width));
  return [1000, 1400, 1900, 2400].find(side => side >= wanted) ?? 2400;
}

// -- Events
// What is known of a running episode. `looking` is who looks at which pages now, `draft` what is written meanwhile.
export const QUIET = {
  state: 'waiting',
  doing: '',
  draft: '',
  looking: null,
  goto: null,
  read: null,
  notes: 0,
  tokens: 0,
  error: '',
};

const readWords = ({ done, of }) => (done ? `${done} of ${of} pages read` : `reading ${of} pages`);
const cellOf = told => (told.cell?.view ? told.cell : null);

const TAKEN = {
  waiting: (now, told) => ({ ...now, doing: told.ahead ? `waiting, ${told.ahead} before it` : 'waiting' }),
  begun: now => ({ ...now, state: 'running', doing: 'starting' }),
  reading: (now, told) => {
    const over = told.done >= told.of;
    return { ...now, doing: over ? now.doing : readWords(told), read: over ? null : told.done / told.of };
  },
  start: (now, told) => {
    const pages = told.shown ?? [];
    const doing = `${told.agent} is looking${pages.length && pages.length < 5 ? ` at ${pagesInWords(pages)}` : ''}`;
    return { ...now, doing, draft: '', read: null, looking: { agent: told.agent, pages } };
  },
  text: (now, told) => ({ ...now, draft: told.preview || 'writing ...' }),
  turn: (now, told) => {
    const cell = cellOf(told);
    const notes = now.notes + (cell ? 1 : 0);
    const tokens = now.tokens + (told.usage?.total_tokens ?? 0);
    return { ...now, draft: '', looking: null, notes, tokens, goto: cell ? cell.view.page : now.goto };
  },
  step: now => now,
  answer: (now, told) => ({ ...now, goto: told.episode?.page ?? now.goto }),
  ended: (now, told) => ({
    ...now,
    state: told.state,
    doing: '',
    draft: '',
    looking: null,
    read: null,
    error: told.error ?? '',
  }),
};

export const take = (now, told) => TAKEN[told.kind]?.(now, told) ?? now;
export const isOver = state => !['waiting', 'running'].includes(state);
export const pagesInWords = pages => `${pages.length === 1 ? 'page' : 'pages'} ${pages.join(', ')}`;

// The number of an author's colour. The roles have theirs everywhere; all others get theirs as they appear.
const ROLES = ['scanner', 'detail_reader', 'cross_checker'];
export function colourOf(agent, others = []) {
  const known = ROLES.indexOf(agent);
  if (known >= 0) return known;
  if (!others.includes(agent)) others.push(agent);
  return ROLES.length + (others.indexOf(agent) % 5);
}

// -- Boxes by hand
// A box from one corner to the other, in 0-1 of the page; null where it is too small to be meant.
export function boxBetween([x0, y0], [x1, y1], least = 0.004) {
  const clamp = v => Math.min(1, Math.max(0, v));
  const [left, right] = [x0, x1].map(clamp).sort((a, b) => a - b);
  const [top, bottom] = [y0, y1].map(clamp).sort((a, b) => a - b);
  if (right - left < least || bottom - top < least) return null;
  return [left, top, right, bottom].map(v => Math.round(v * 1e4) / 1e4);
}

export const BOX_IN_MIDDLE = [0.3, 0.45, 0.7, 0.55];

// A box that an arrow key moves, or with Shift makes larger or smaller; null for another key.
export function boxByKey(box, key, isSized, step = 0.01) {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  if (!way) return null;
  const [dx, dy] = way.map(v => v * step);
  const [x0, y0, x1, y1] = box;
  if (isSized)
    return boxBetween([x0, y0], [Math.max(x0 + step, x1 + dx), Math.max(y0 + step, y1 + dy)]) ?? box;
  const mx = Math.min(Math.max(dx, -x0), 1 - x1);
  const my = Math.min(Math.max(dy, -y0), 1 - y1);
  return boxBetween([x0 + mx, y0 + my], [x1 + mx, y1 + my]) ?? box;
}

// -- Settings
// What the fields of a form say, as the server takes it; only what differs from the usual.
export function settingsOf(fields, usual) {
  const number = text => (String(text ?? '').trim() === '' ? null : Number(text));
  const said = {
    client: fields.client,
    method: fields.method,
    agents: fields.agents,
    order: fields.order,
    focus: fields.focus,
    max_steps: number(fields.max_steps),
    max_tokens: number(fields.max_tokens),
    k: number(fields.k),
    tools: fields.tools,
    set: ownSettings(fields.set),
  };
  const isSaid = ([name, value]) =>
    value !== null && value !== undefined && JSON.stringify(value) !== JSON.stringify(usual[name]);
  return Object.fromEntries(Object.entries(said).filter(isSaid));
}

// Settings of the method as one types them: num_samples=5, accept=require_evidence+self_check.
export function ownSettings(text) {
  const read = word => {
    if (word.includes('+')) return word.split('+');
    if (word === 'true' || word === 'false') return word === 'true';
    return word !== '' && Number.isFinite(Number(word)) ? Number(word) : word;
  };
  const parts = String(text ?? '').split(',');
  const pairs = parts.map(part => part.split('=').map(word => word.trim()));
  return Object.fromEntries(pairs.filter(([name]) => name).map(([name, value = '']) => [name, read(value)]));
}

export const ownSettingsInWords = set =>
  Object.entries(set ?? {})
    .map(([name, value]) => `${name}=${Array.isArray(value) ? value.join('+') : value}`)
    .join(', ');

// May a team be asked? Then its shape matters.
export const asksTeam = method => ['auto', 'team', 'escalate', 'blind'].includes(method);

// Settings in a few words: what somebody chose, and nothing that goes without saying.
export function settingsInWords(settings, usual) {
  const {
    client,
    method,
    agents,
    order,
    focus,
    max_steps: steps,
    max_tokens: tokens,
    tools,
  } = {
    ...usual,
    ...settings,
  };
  const isTeam = asksTeam(method);
  const words = [
    client,
    method === 'team' ? `team of ${agents.length}` : method === 'auto' ? '' : method.replaceAll('_', ' '),
    isTeam && order !== usual.order ? order : '',
    isTeam && steps !== usual.max_steps ? `${steps} steps` : '',
    focus !== usual.focus ? `focus ${focus}` : '',
    tokens ? `${tokens.toLocaleString('en')} tokens at most` : '',
    isTeam && tools ? 'with tools' : '',
    ownSettingsInWords(settings.set),
  ];
  return words.filter(Boolean).join(', ');
}

// -- What would help
const READER = 'ocr'; // the rule-based reader, which asks no model

// From an answer that is wrong, or that is none, to a better one: whom else to ask, or how to get a model.
export function helpFor(episode, { models, advice }) {
  const isNone = episode.state === 'done' && !episode.answer;
  if (episode.right !== false && !isNone && episode.state !== 'failed') return null;
  const asked = episode.settings.client || models[0].name;
  const method = episode.settings.method ?? 'auto';
  const { set: _, ...kept } = episode.settings; // settings of its method are those of no other
  const step = (words, change) => ({ words, settings: { ...kept, ...change } });
  const others = models.filter(({ name }) => name !== asked && name !== READER).slice(0, 3);
  const steps = others.map(({ name }) => step(`Ask ${name}`, { client: name, method: 'auto' }));
  const isTeam = asked === READER || ['team', 'blind'].includes(method);
  if (!isTeam) steps.push(step('Ask a team (several calls)', { method: 'team' }));
  const said = asked === READER ? ['No model was asked: the reader copies what pages say.', advice] : [];
  return { said: said.filter(Boolean).join(' For more, '), steps };
}

// -- Two answers
export const sameAnswer = (a, b) => normal(a) === normal(b);
const normal = text =>
  String(text ?? '')
    .trim()
    .toLowerCase()
    .replace(/[.\s]+$/, '');

export function pairInWords(a, b) {
  if (!isOver(a.state) || !isOver(b.state)) return 'Both are being asked …';
  const failed = [a, b].filter(e => e.state !== 'done').length;
  if (failed) return failed === 2 ? 'Neither gave an answer.' : 'One of them gave no answer.';
  if (!a.answer && !b.answer) return 'Both find no answer on these pages.';
  return sameAnswer(a.answer, b.answer) ? 'Both give the same answer.' : 'They give different answers.';
}

// -- The address
// Behind # stand the document, the episode and the page, so that a reload leads back.
export function readAddress(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, ''));
  const id = name => (/^[0-9a-f]{24}$/.test(said.get(name) ?? '') ? said.get(name) : '');
  return {
    document: id('d'),
    episode: id('e'),
    page: Math.max(1, Number.parseInt(said.get('p') ?? '1', 10) || 1),
  };
}

export function addressOf({ document, episode, page }) {
  const parts = [
    ['d', document],
    ['e', episode],
    ['p', page > 1 ? String(page) : ''],
  ];
  return `#${new URLSearchParams(parts.filter(([, value]) => value))}`;
}

// -- The history
// May an episode stand beside those that are chosen? Two about one document may, and one not beside itself.
export const comparable = (chosen, e) =>
  chosen.length < 2 && chosen.every(other => other.document === e.document && other.id !== e.id);

export const MARKS = [
  ['', 'All', () => true],
  ['right', 'Right', e => e.right === true],
  ['wrong', 'Wrong', e => e.right === false],
  ['open', 'Not marked', e => e.right === null || e.right === undefined],
];

// The same words as everywhere, see `answer_words` of cosee.episode.
export function answerInWords(e) {
  const isSilent = e.fault || ['silent', 'not asked', 'failed'].includes(e.outcome);
  const none = isSilent ? 'No answer' : 'Not answerable from these pages';
  if (e.state === 'done') return e.answer ?? (e.guess ? `Withheld; the guess is: ${e.guess}` : none);
  const why = String(e.error ?? '').replace(/^\w+: /, '');
  return (
    { waiting: 'waiting', running: 'running' }[e.state] ??
    `${e.state}${why && e.state !== 'stopped' ? `: ${why}` : ''}`
  );
}

export function timeInWords(at, now = new Date()) {
  const then = new Date(at);
  if (Number.isNaN(then.getTime())) return '';
  const isToday = then.toDateString() === now.toDateString();
  return isToday
    ? then.toLocaleTimeString('en', { hour: '2-digit', minute: '2-digit', hour12: false })
    : then.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
}

// What a model that writes pages down was paid for an episode; a page that was kept costs nothing.
export function readingInWords(e) {
  const { pages, kept, total_tokens: tokens } = e.reading ?? {};
  const parts = [
    pages ? `${plural(pages, 'page')} written down for ${tokens.toLocaleString('en')} tokens` : '',
    kept ? `${plural(kept, 'page')} kept for none` : '',
  ];
  return parts.filter(Boolean).join(', ');
}

// What an episode spent; the rule-based reader asks no model.
export function tokensInWords(e) {
  const { total_tokens: tokens, calls } = e.usage ?? {};
  if (tokens) return `${tokens.toLocaleString('en')} tokens`;
  return tokens === 0 && calls ? 'no model' : '';
}

// Money, where the server knows what tokens cost; a fraction of a cent is not nothing.
export function moneyInWords(e) {
  if (!e.cost) return '';
  return `$${e.cost.toFixed(e.cost >= 1 ? 2 : 4)}`;
}

export function costInWords(e) {
  const parts = [
    tokensInWords(e),
    readingInWords(e),
    moneyInWords(e),
    e.seconds >= 0.05 ? `${e.seconds.toFixed(1)} s` : '',
  ];
  return parts.filter(Boolean).join(', ');
}
