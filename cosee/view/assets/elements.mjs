// What the scripts of all pages make elements with: an episode's, the run viewer's, the review's and the app's.
// Texts become text nodes, whatever they hold; nothing is ever parsed as markup here.

// -- Elements
export const $ = id => document.getElementById(id);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];
export const first = (selector, root = document) => root.querySelector(selector);
export const isNothing = x => x === null || x === undefined || x === false;

// An element; `click` is what it does, every other property an attribute.
export function h(tag, properties, ...kids) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (isNothing(value)) continue;
    if (name === 'click') element.addEventListener('click', value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  const shown = kids.flat().filter(kid => !isNothing(kid));
  element.append(...shown.map(kid => (kid instanceof Node ? kid : String(kid))));
  return element;
}

export function svgElement(tag, attributes) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

export function fill(id, ...kids) {
  $(id).replaceChildren(...kids.flat().filter(Boolean));
  return $(id);
}

// The button of a group that is pressed keeps the focus when the group is drawn anew.
export const focusPressed = id => $(id).querySelector('[aria-pressed=true]')?.focus();
export const hidden = text => h('span', { class: 'far' }, text); // for screen readers
export const silent = (text, properties) => h('span', { 'aria-hidden': 'true', ...properties }, text);
