// Everything that was asked: listed, searched, opened again.
import { $, all, fill, focusPressed, h, hidden } from '../../view/assets/elements.mjs';
import { plural } from '../../view/assets/words.mjs';
import { answerInWords, comparable, costInWords, MARKS, timeInWords } from './logic.mjs';
import { server } from './server.mjs';

// -- One line
const SIGNS = { true: ['✓', 'right'], false: ['✗', 'wrong'] };

function markOf(e) {
  const [sign, name] = SIGNS[e.right] ?? ['', ''];
  return sign && h('span', { class: `chip ${name}`, title: `marked as ${name}` }, `${sign} ${name}`);
}

function lineOf(e, how, open, pick) {
  const facts = [e.name, how, timeInWords(e.asked), costInWords(e), e.earlier ? 'goes on from another' : ''];
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
  const box = h('input', { type: 'checkbox', 'data-id': e.id, click: () => pick(e) });
  const label = h('label', { class: 'check pick' }, box, ' Compare', hidden(`: ${e.question}`));
  return h('li', {}, button, markOf(e), label);
}

// -- The dialog
export function historyOf(open, compare, fault, inWords) {
  const dialog = $('history');
  let found = [];
  let mark = '';
  let later = 0;
  let picked = []; // at most two, to stand side by side

  const offer = () => {
    for (const box of all('#episodes input')) {
      box.checked = picked.some(e => e.id === box.dataset.id);
      const other = found.find(e => e.id === box.dataset.id);
      box.disabled = !box.checked && !comparable(picked, other);
    }
    $('to-pair').disabled = picked.length < 2;
    const another = `Tick another about ${picked[0]?.name}.`;
    fill('picked', ['Tick two about one document to see them side by side.', another][picked.length] ?? '');
  };
  const pick = e => {
    const isOn = picked.some(one => one.id === e.id);
    picked = isOn ? picked.filter(one => one.id !== e.id) : [...picked, e];
    offer();
  };

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
      shown.map(e => lineOf(e, inWords(e.settings), choose, pick)),
    );
    const none = found.length ? 'None of them is marked so.' : 'Nothing is found.';
    fill('found', shown.length ? plural(shown.length, 'question') : none);
    offer();
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
  $('to-pair').addEventListener('click', () => {
    dialog.close();
    compare(...picked);
  });
  $('history-close').addEventListener('click', () => dialog.close());
  dialog.addEventListener('click', event => {
    if (event.target === dialog) dialog.close();
  });
  return async () => {
    picked = [];
    await look();
    if (!dialog.open) dialog.showModal();
    $('search').focus();
  };
}
