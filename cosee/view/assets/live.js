// A page in a widget gets a new section for every event of a running episode.
import { all } from './elements.mjs';
import { parsed, renew } from './section.mjs';

// -- Messages
let waiting = null;

// While a page is open in full size, the newest section waits.
function flush() {
  if (waiting === null || document.querySelector('.zoom[open]')) return;
  const html = waiting;
  waiting = null;
  const old = all('.ep')[0];
  const ep = parsed(html);
  if (!old || !ep) return;
  ep.classList.add('on');
  renew(old, () => {
    old.replaceWith(ep);
    return ep;
  });
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
