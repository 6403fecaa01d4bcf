// What the page of an episode does beside its sections: it shows one question at a time, and the address says which.
import { all } from './elements.mjs';
import { setup } from './section.mjs';

// -- One question at a time
function showNamed() {
  const id = location.hash.slice(1);
  const target = id ? document.getElementById(id) : null;
  const sections = all('.ep');
  const ep = target?.closest('.ep') ?? sections[0];
  if (!ep) return;
  for (const section of sections) section.classList.toggle('on', section === ep);
  const fold = target?.closest('details');
  if (fold) fold.open = true;
  for (const link of all('nav a')) {
    if (link.hash === `#${ep.id}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (target && target !== ep) target.scrollIntoView({ block: 'nearest' });
}

document.documentElement.classList.add('js');
for (const ep of all('.ep')) setup(ep);
addEventListener('hashchange', showNamed);
showNamed();
