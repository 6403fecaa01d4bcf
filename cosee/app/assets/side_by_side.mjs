// Two episodes side by side: what each answered and what it cost, and the notes on which it rests.
import { $, all, fill, first, h, isNothing } from '../../view/assets/elements.mjs';
import { renew } from '../../view/assets/section.mjs';
import { inWords } from '../../view/assets/words.mjs';
import { withErrorMessage } from './errors.mjs';
import {
  answerInWords,
  isOver,
  moneyInWords,
  pairInWords,
  QUIET,
  readingInWords,
  take,
  timeInWords,
  tokensInWords,
} from './logic.mjs';
import { followed, refresher, server } from './server.mjs';

const pageIn = use => Number(use.getAttribute('href').replace('#page', ''));

export function sideBySideOf(imageCache, settingsInWords) {
  let pair = null; // what is shown
  let document = null;
  let ends = [];

  function draw() {
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
      ...(pair.some(moneyInWords) ? [['Price', e => moneyInWords(e) || '–']] : []),
      ['Seconds', e => (isNothing(e.seconds) ? '–' : inWords(e.seconds, 1))],
      ['Asked', e => timeInWords(e.asked)],
    ];
    const head = pair.map(e => h('th', { scope: 'col', dir: 'auto' }, settingsInWords(e.settings)));
    const row = ([name, get]) =>
      h(
        'tr',
        {},
        h('th', { scope: 'row' }, name),
        pair.map(e => h('td', { dir: 'auto' }, get(e))),
      );
    fill('pair-table', h('thead', {}, h('tr', {}, h('td'), head)), h('tbody', {}, rows.map(row)));
  }

  // The head of a section, the page on which it rests, and its notes.
  function put(id, i, section) {
    const main = all('.snippet use', section).map(pageIn);
    const figures = all('template[data-figure]', section).filter(t =>
      main.includes(Number(t.dataset.figure)),
    );
    renew($(id), () => {
      fill(
        id,
        h('h3', { class: 'which' }, settingsInWords(pair[i].settings)),
        first('.answer', section),
        ...figures.map(t => t.content.firstElementChild),
        first('.notes', section),
      );
      return $(id);
    });
    for (const button of all('.enlarge', $(id))) button.remove();
    imageCache.need(document, all('#pair use').map(pageIn), $(id).clientWidth);
  }

  function follow(id, i) {
    const mine = pair[i].id;
    const refresh = refresher(mine, `q${i + 1}`, section => pair?.[i].id === mine && put(id, i, section));
    refresh();
    if (isOver(pair[i].state)) return () => {};
    return followed(
      mine,
      withErrorMessage(async told => {
        if (!pair) return;
        if (told.kind === 'ended') pair[i] = await server.episode(mine);
        else pair[i].state = take({ ...QUIET, state: pair[i].state }, told).state;
        draw();
        await refresh();
      }),
    );
  }

  return {
    show(a, b, of) {
      [pair, document] = [[a, b], of];
      ends = ['one', 'two'].map(follow);
      draw();
      $('pair-close').focus();
    },
    // What was shown first is where one goes back to.
    close() {
      const shown = pair?.[0] ?? null;
      for (const end of ends) end();
      [pair, ends] = [null, []];
      for (const id of ['one', 'two']) fill(id);
      return shown;
    },
    stop: withErrorMessage(async () => {
      await Promise.all(pair.map(e => server.stop(e.id)));
    }),
  };
}
