// Thumbnails of all pages: as many elements as are in sight, however many pages there are.
import { first, h, hidden } from '../../view/assets/elements.mjs';
import { cellsInSight, pageByKey, scrolledTo } from './logic.mjs';
import { pictureOf } from './server.mjs';

// -- A cell
const SIDE = 192; // of a thumbnail

// What is told of a page beside its number and that of its notes.
function toldOf(page, marks) {
  const notes = marks.notes.get(page);
  const parts = [
    notes ? ` ${notes === 1 ? 'note' : 'notes'}` : '',
    marks.evidence.has(page) ? 'evidence' : '',
    marks.looking?.pages.includes(page) ? `${marks.looking.agent} is looking` : '',
  ];
  return parts.filter(Boolean).join(', ');
}

function cellOf(page, place, count) {
  const properties = {
    role: 'option',
    id: `thumb${page}`,
    class: 'thumb',
    'aria-posinset': page,
    'aria-setsize': count,
  };
  const cell = h(
    'div',
    { ...properties, 'data-page': page },
    h('img', { alt: '', draggable: 'false', decoding: 'async' }),
    h('span', { class: 'number' }, hidden('Page '), page),
    h('span', { class: 'count' }),
    h('span', { class: 'far told' }),
    h('span', { class: 'eye' }),
  );
  cell.style.transform = place;
  return cell;
}

// -- All of them
export function thumbnailsOf(element, track, choose) {
  const marks = { notes: new Map(), evidence: new Set(), looking: null };
  const cells = new Map();
  let document = null;
  let current = 1;
  let later = 0;

  const isFlat = () => element.clientWidth > element.clientHeight * 1.5;
  const size = () => {
    const style = getComputedStyle(element);
    return Number.parseFloat(style.getPropertyValue(isFlat() ? '--cell-width' : '--cell-height'));
  };
  const reach = () =>
    isFlat() ? [element.scrollLeft, element.clientWidth] : [element.scrollTop, element.clientHeight];
  const placeOf = page => {
    const far = (page - 1) * size();
    return isFlat() ? `translateX(${far}px)` : `translateY(${far}px)`;
  };

  const dress = (cell, page) => {
    const { notes, evidence, looking } = marks;
    const isLooked = looking?.pages.includes(page) ?? false;
    cell.setAttribute('aria-selected', String(page === current));
    cell.className = `thumb${evidence.has(page) ? ' rests' : ''}${isLooked ? ` looked a${looking.colour}` : ''}`;
    first('.count', cell).textContent = notes.get(page) ?? '';
    first('.told', cell).textContent = toldOf(page, marks);
  };

  // A picture is fetched where scrolling rests: what flies past costs nothing.
  const load = () => {
    for (const [page, cell] of cells) {
      const picture = cell.firstChild;
      if (!picture.getAttribute('src')) picture.src = pictureOf(document.id, page, SIDE);
    }
  };

  const draw = () => {
    if (!document) return;
    const [at, room] = reach();
    const sight = cellsInSight(at, room, size(), document.pages);
    for (const [page, cell] of cells) {
      if (page > sight.first && page <= sight.last) continue;
      cell.firstChild.removeAttribute('src');
      cell.remove();
      cells.delete(page);
    }
    for (let page = sight.first + 1; page <= sight.last; page++) {
      if (cells.has(page)) continue;
      const cell = cellOf(page, placeOf(page), document.pages);
      cells.set(page, cell);
      dress(cell, page);
      track.append(cell);
    }
    clearTimeout(later);
    later = setTimeout(load, 60);
  };

  const show = () => {
    const [at, room] = reach();
    const to = scrolledTo(current - 1, at, room, size());
    if (isFlat()) element.scrollLeft = to;
    else element.scrollTop = to;
    draw();
    for (const [page, cell] of cells) dress(cell, page);
    element.setAttribute('aria-activedescendant', `thumb${current}`);
  };

  const lay = () => {
    if (!document) return;
    const [long, none] = [`${document.pages * size()}px`, ''];
    track.style.height = isFlat() ? none : long;
    track.style.width = isFlat() ? long : none;
    for (const [page, cell] of cells) cell.style.transform = placeOf(page);
    show();
  };

  element.addEventListener('scroll', draw, { passive: true });
  element.addEventListener('click', event => {
    const cell = event.target.closest('.thumb');
    if (cell) choose(Number(cell.dataset.page));
  });
  element.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !document) return;
    const page = pageByKey(event.key, current, document.pages);
    if (page === null) return;
    event.preventDefault();
    event.stopPropagation();
    choose(page);
  });
  new ResizeObserver(lay).observe(element);

  return {
    open(opened) {
      for (const cell of cells.values()) cell.remove();
      cells.clear();
      [document, current] = [opened, 1];
      element.scrollTop = element.scrollLeft = 0;
      lay();
    },
    at(page) {
      current = page;
      show();
    },
    mark(changed) {
      Object.assign(marks, changed);
      for (const [page, cell] of cells) dress(cell, page);
    },
  };
}
