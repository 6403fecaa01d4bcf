// The beginning: documents that are open, files that can be opened, and a way to hand one in.
import { $, fill, h } from '../../view/assets/elements.mjs';
import { holdsAll, inWords, plural, wordsOf } from '../../view/assets/words.mjs';
import { withErrorMessage } from './errors.mjs';
import { server } from './server.mjs';

const MOST_LISTED = 200;

function entry(name, beside, click, ...more) {
  const button = h(
    'button',
    { type: 'button', click },
    h('span', { dir: 'auto' }, name),
    h('small', {}, beside),
  );
  return h('li', {}, button, ...more);
}

// What was handed in is deleted, at the second click; what was asked about it stays.
function deleteButton({ id, name, kind }, deleted) {
  const what = kind === 'upload' ? 'Delete' : 'Close';
  const click = withErrorMessage(async () => {
    if (button.textContent === '✕') {
      button.textContent = `${what}?`;
      return;
    }
    await server.remove(id);
    await deleted();
  });
  const button = h('button', { type: 'button', class: 'away', 'aria-label': `${what} ${name}`, click }, '✕');
  button.addEventListener('blur', () => {
    button.textContent = '✕';
  });
  return button;
}

// Files of the folder that are no documents, so that nobody takes them for read.
function showLeftOut(files) {
  $('left-out').hidden = !files.length;
  fill('left-out-count', `${plural(files.length, 'file')} not read`);
  fill(
    'left-out-files',
    files.map(({ file, why }) => h('li', {}, h('span', { dir: 'auto' }, file), `: ${why}`)),
  );
}

export function startPageOf({ openDocument, openPath, reload }) {
  let files = [];

  function listFiles() {
    const words = wordsOf($('find').value);
    const found = files.filter(name => holdsAll(words, name.toLowerCase()));
    fill(
      'files',
      found.slice(0, MOST_LISTED).map(name => entry(name, '', () => openPath(name))),
    );
    const more = found.length - MOST_LISTED;
    fill(
      'more-files',
      more > 0 ? `${inWords(more)} more: type a part of the name` : found.length ? '' : 'No such file.',
    );
  }

  const openEntry = document =>
    entry(
      document.name,
      plural(document.pages, 'page'),
      () => openDocument(document.id),
      deleteButton(document, reload),
    );

  $('find').addEventListener('input', listFiles);
  return {
    show(start) {
      files = start.files;
      const most = Math.floor(start.upload_bytes / 1e6);
      fill('limits', `At most ${inWords(most)} MB and ${inWords(start.pages)} pages.`);
      fill('advice', start.advice);
      $('no-model').hidden = !start.advice;
      $('below').hidden = !files.length && !start.left_out.length;
      showLeftOut(start.left_out);
      $('recent').hidden = !start.documents.length;
      listFiles();
      fill('documents', start.documents.slice(0, 50).map(openEntry));
    },
  };
}
