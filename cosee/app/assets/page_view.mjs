// The page that is looked at: its picture, the boxes of the notes, and a box that is drawn by hand.
import { first, svgElement } from '../../view/assets/elements.mjs';
import { BOX_IN_MIDDLE, boxBetween, boxByKey } from './logic.mjs';

// -- A page without notes
function bareFigure(document, page) {
  const [width, height] = document.sizes[page - 1];
  const h = Math.round((1000 * height) / width);
  const svg = svgElement('svg', { viewBox: `0 0 1000 ${h}`, role: 'img', 'aria-label': `Page ${page}` });
  svg.append(
    svgElement('rect', { class: 'paper', width: 1000, height: h }),
    svgElement('use', { href: `#page${page}` }),
  );
  const figure = window.document.createElement('figure');
  figure.append(svg);
  return figure;
}

// -- The view
export function pageViewOf(element, output, boxed) {
  let scale = 1;
  let draft = null; // a box by hand, 0-1
  let isDrawing = false;
  let corner = null;

  const svgOf = () => first('figure svg', element);
  const heightOf = svg => svg.viewBox.baseVal.height;

  const size = wanted => {
    scale = Math.min(4, Math.max(0.3, wanted));
    const figure = first('figure', element);
    if (figure) figure.style.width = `${100 * scale}%`;
    output.textContent = `${Math.round(100 * scale)}%`;
  };

  const drawDraft = () => {
    const svg = svgOf();
    first('.draft', element)?.remove();
    if (!svg || !draft) return;
    const [x0, y0, x1, y1] = draft;
    const h = heightOf(svg);
    const place = { x: 1000 * x0, y: h * y0, width: 1000 * (x1 - x0), height: h * (y1 - y0) };
    const label = 'The place of your note: arrow keys move it, with Shift they size it';
    const rect = svgElement('rect', {
      class: 'draft',
      tabindex: 0,
      role: 'img',
      'aria-label': label,
      ...place,
      rx: 4,
    });
    svg.append(rect);
  };

  const setDraft = box => {
    draft = box;
    drawDraft();
    boxed(box);
  };

  const pointOf = event => {
    const r = svgOf().getBoundingClientRect();
    return [(event.clientX - r.left) / r.width, (event.clientY - r.top) / r.height];
  };
  element.addEventListener('pointerdown', event => {
    if (!isDrawing || event.button || !event.target.closest('figure svg')) return;
    event.preventDefault();
    corner = pointOf(event);
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener('pointermove', event => {
    if (!corner) return;
    draft = boxBetween(corner, pointOf(event)) ?? draft;
    drawDraft();
  });
  element.addEventListener('pointerup', event => {
    if (!corner) return;
    const box = boxBetween(corner, pointOf(event));
    corner = null;
    setDraft(box);
  });
  element.addEventListener('pointercancel', () => {
    corner = null;
  });
  element.addEventListener('keydown', event => {
    if (!event.target.matches('.draft')) return;
    const box = event.key === 'Delete' ? undefined : boxByKey(draft, event.key, event.shiftKey);
    if (box === null) return;
    event.preventDefault();
    event.stopPropagation();
    setDraft(box ?? null);
    first('.draft', element)?.focus();
  });

  return {
    show(figure, document, page) {
      const [left, top] = [element.scrollLeft, element.scrollTop];
      const isSame = Number(element.dataset.page) === page;
      element.dataset.page = page;
      first('.enlarge', figure ?? element)?.remove();
      element.replaceChildren(figure ?? bareFigure(document, page));
      size(scale);
      if (!isSame) draft = null;
      drawDraft();
      element.scrollTo(isSame ? { left, top } : { left: 0, top: 0 });
    },
    width: () => element.clientWidth * scale,
    by: factor => size(scale * factor),
    fit: () => size(1),
    draw(on) {
      isDrawing = on;
      element.classList.toggle('drawing', on);
      if (!on) setDraft(null);
    },
    place() {
      setDraft(draft ?? BOX_IN_MIDDLE);
      first('.draft', element)?.focus();
    },
  };
}
