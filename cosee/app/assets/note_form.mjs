// A note by hand: what it says, what it corrects, and its place, which is drawn on the page.
import { $, all, fill, first, h } from '../../view/assets/elements.mjs';

export function noteFormOf(pageView) {
  let box = null;

  return {
    setBox(drawn) {
      box = drawn;
    },
    // The notes on the Board are what it may correct.
    listTargets() {
      const kept = $('note-target').value;
      const option = note => {
        const text = `#${note.dataset.c} ${first('.who', note).textContent}: ${first('p', note).textContent}`;
        return h('option', { value: note.dataset.c }, text.slice(0, 70));
      };
      fill('note-target', h('option', { value: '' }, 'nothing'), all('.note', $('board')).map(option));
      $('note-target').value = kept;
    },
    show(on) {
      $('by-hand').hidden = !on;
      $('note').setAttribute('aria-expanded', String(on));
      pageView.draw(on);
      if (on) $('note-text').focus();
      else $('note').focus();
    },
    read(page) {
      const text = $('note-text').value.trim();
      const answer = $('note-answer').value.trim();
      const corrects = Number($('note-target').value) || null;
      if (!text && !answer) throw new Error('Say what is so, or what the answer is.');
      return { page, text, ...(answer && { answer }), ...(corrects && { corrects }), ...(box && { box }) };
    },
    clear() {
      for (const id of ['note-text', 'note-answer', 'note-target']) $(id).value = '';
    },
  };
}
