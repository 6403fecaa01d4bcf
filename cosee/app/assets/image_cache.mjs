// Pictures of pages: every figure shows `#page3` from one place, as in the page of an episode. A few are held at once.
import { first, svgElement } from '../../view/assets/elements.mjs';
import { heldPages, sideFor } from './logic.mjs';
import { pictureOf } from './server.mjs';

export function imageCacheOf(element) {
  let held = [];
  return {
    need(document, pages, shown) {
      held = heldPages(
        pages.filter(page => page > 0 && page <= document.pages),
        held,
      );
      const wanted = new Map(held.map(page => [`page${page}`, page]));
      for (const image of [...element.children]) {
        const isOther = image.dataset.document !== document.id;
        if (isOther || !wanted.has(image.id)) image.remove();
      }
      for (const [id, page] of wanted) {
        const [width, height] = document.sizes[page - 1];
        const side = sideFor([width, height], shown, devicePixelRatio);
        const there = first(`[id="${id}"]`, element);
        if (there && Number(there.dataset.side) >= side) continue;
        const image = svgElement('image', {
          id,
          width: 1000,
          height: Math.round((1000 * height) / width),
          preserveAspectRatio: 'none',
          href: pictureOf(document.id, page, side),
          'data-side': side,
          'data-document': document.id,
        });
        if (there) there.replaceWith(image);
        else element.append(image);
      }
    },
    clear() {
      held = [];
      element.replaceChildren();
    },
  };
}
