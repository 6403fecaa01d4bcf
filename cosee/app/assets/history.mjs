// Everything that was asked: listed, searched, opened again.
import { $, fill, focusPressed, h } from '../../view/assets/elements.mjs';
import { plural } from '../../view/assets/words.mjs';
import { answerInWords, costInWords, MARKS, timeInWords } from './logic.mjs';
import { server } from './server.mjs';

// -- One line
const SIGNS = { true: ['✓', 'right'], false: ['✗', 'wrong'] };

function markOf(e) {
  const [sign, name] = SIGNS[e.right] ?? ['', ''];
  return sign && h('span', { class: `chip ${name}`, title: `marked as ${name}` }, `${sign} ${name}`);
}

function lineOf(e, open) {
  const facts = [e.name, timeInWords(e.asked), costInWords(e), e.earlier ? 'goes on from another' : ''];
  const button = h(
    'button',
    { type: 'button', click: () => open(e) },
    h('span', { class: 'asked', dir: 'auto' }, e.question),
    h('span', { class: `answered ${e.state}`, dir: 'auto' }, answerInWords(e)),
    h(
      'span',
      { class: 'dim facts' },
      facts.filter(Boolean).map(text => h('span', { dir: 'auto' }, text)),
    ),
  );
  return h('li', {}, button, markOf(e));
}

// -- The dialog
export function historyOf(open, fault) {
  const dialog = $('history');
  let found = [];
  let mark = '';
  let later = 0;

  const draw = () => {
    const button = ([key, name, test]) => {
      const click = () => {
        mark = key;
        draw();
        focusPressed('marks');
      };
      const properties = { type: 'button', 'aria-pressed': String(key === mark), click };
      return h('button', properties, name, h('small', {}, found.filter(test).length));
    };
    fill('marks', MARKS.map(button));
    const shown = found.filter(MARKS.find(([key]) => key === mark)[2]);
    const choose = e => {
      dialog.close();
      open(e);
    };
    fill(
      'episodes',
      shown.map(e => lineOf(e, choose)),
    );
    const none = found.length ? 'None of them is marked so.' : 'Nothing is found.';
    fill('found', shown.length ? plural(shown.length, 'question') : none);
    $('as-set').hidden = !found.some(e => e.right === true);
  };

  const look = async () => {
    try {
      found = await server.episodes($('search').value);
      draw();
    } catch (error) {
      dialog.close();
      fault(error.message);
    }
  };

  $('search').addEventListener('input', () => {
    clearTimeout(later);
    later = setTimeout(look, 120);
  });
  $('history-close').addEventListener('click', () => dialog.close());
  dialog.addEventListener('click', event => {
    if (event.target === dialog) dialog.close();
  });
  return async () => {
    await look();
    if (!dialog.open) dialog.showModal();
    $('search').focus();
  };
}
