// A page in a widget gets a new section for every event of a running episode.
import { all, setup } from './episode.js';

// -- A new section
// How to find the focused element again in the next section; null where the focus is elsewhere.
function focusedIn(section) {
  const element = document.activeElement;
  if (!element || !section.contains(element)) return null;
  if (element.id) return `#${element.id}`;
  if (element.dataset.f) return `[data-f="${element.dataset.f}"]`;
  return element.matches('.slider input') ? '.slider input' : null;
}

// The section comes as markup; the page's policy keeps whatever it holds from running.
function parsed(html) {
  const box = document.createElement('template');
  box.innerHTML = html;
  return box.content.querySelector('.ep');
}

function update(html) {
  const old = all('.ep')[0];
  const ep = parsed(html);
  if (!old || !ep) return;
  const known = new Set(all('.note', old).map(note => note.dataset.c));
  const folds = all('details[data-o]', old).filter(fold => fold.open);
  const open = folds.map(fold => fold.dataset.o);
  const focus = focusedIn(old);
  const [left, top] = [scrollX, scrollY];
  ep.classList.add('on');
  old.replaceWith(ep);
  setup(ep, old.state);
  for (const fold of all('details[data-o]', ep)) fold.open ||= open.includes(fold.dataset.o);
  for (const note of all('.note', ep)) note.classList.toggle('fresh', !known.has(note.dataset.c));
  if (focus) all(focus, ep)[0]?.focus({ preventScroll: true });
  scrollTo({ left, top, behavior: 'instant' });
}

// -- Messages
let waiting = null;

// While a page is open in full size, the newest section waits.
function flush() {
  if (waiting === null || document.querySelector('.zoom[open]')) return;
  const html = waiting;
  waiting = null;
  update(html);
}

addEventListener('close', flush, true);
addEventListener('message', event => {
  // From the page that frames this one, and from nobody else.
  if (parent === window || event.source !== parent) return;
  if (typeof event.data?.section !== 'string') return;
  waiting = event.data.section;
  flush();
});
parent.postMessage({ cosee: 'ready' }, '*');
