// What a section with an episode does, wherever it stands: in the page of an episode, in the widget, in the app. No
// text from outside becomes markup here: the script works on numbers that stand in the markup. `data-c` is the
// number of a note, `data-from` and `data-to` are the ends of a link, `data-f` is a filter, and `data-k` are the
// filters that a note passes.
import { all, first, svgElement } from './elements.mjs';

// -- A section and its state
// `old` is the state of an earlier section: a live view keeps what its reader has chosen. A section whose parts were
// replaced is set up again, and what listened to the old parts listens no more.
export function setup(ep, old) {
  ep.listening?.abort();
  ep.listening = new AbortController();
  ep.state = { at: null, on: new Set(), ...old };
  const { signal } = ep.listening;
  const light = lights(ep, signal);
  const draw = arcs(ep, signal);
  const show = showing(ep, ep.state, light, draw);
  replay(ep, ep.state, show, signal);
  filters(ep, ep.state, show);
  zoom(ep, signal);
  draw();
  show();
}

// -- Notes, boxes and links light together
function lights(ep, signal) {
  let lit = [];
  const mark = (element, name) => {
    element.classList.add(name);
    lit.push([element, name]);
  };
  const dark = () => {
    for (const [element, name] of lit) element.classList.remove(name);
    lit = [];
  };

  // Light note `n`; with `m`, only the link from `n` to `m` and its two ends.
  const light = (n, m) => {
    dark();
    if (!n) return;
    const far = new Set();
    for (const link of all('[data-from]', ep)) {
      const { from, to } = link.dataset;
      const chosen = m ? from === n && to === m : from === n || to === n;
      if (!chosen) continue;
      mark(link, 'lit');
      far.add(from).add(to);
    }
    for (const element of all('[data-c]', ep)) {
      const number = element.dataset.c;
      if (number === n || number === m) mark(element, 'lit');
      else if (far.has(number)) mark(element, 'near');
    }
  };

  const under = event => {
    const target = event.target.closest?.('[data-from], [data-c]');
    if (target) light(target.dataset.c || target.dataset.from, target.dataset.to);
    else light();
  };
  for (const kind of ['mouseover', 'focusin']) ep.addEventListener(kind, under, { signal });
  ep.addEventListener('mouseleave', () => light(), { signal });
  ep.addEventListener('click', event => goAcross(event, ep, light), { signal });
  return light;
}

// A click on a box leads to its note, a click on a note to its page.
function goAcross(event, ep, light) {
  const mark = event.target.closest('.mark');
  const note = event.target.closest('.note');
  if (mark && !mark.closest('dialog')) {
    const its = first(`.note[data-c="${mark.dataset.c}"]`, ep);
    if (!its) return;
    its.focus({ preventScroll: true });
    its.scrollIntoView({ block: 'nearest' });
    light(mark.dataset.c);
  } else if (note && !event.target.closest('a')) {
    note.closest('.row')?.querySelector('figure').scrollIntoView({ block: 'nearest' });
  }
}

// -- What is shown
function showing(ep, state, light, draw) {
  const notes = all('.note', ep);
  const last = notes.length;
  const keys = Object.fromEntries(notes.map(note => [note.dataset.c, note.dataset.k.split(' ')]));

  // A note passes if each group (agents, steps, tags) is untouched or has a filter that the note passes.
  const passes = number =>
    ['a', 's', 't'].every(group => {
      const on = [...state.on].filter(filter => filter[0] === group);
      return !on.length || !keys[number] || on.some(filter => keys[number].includes(filter));
    });
  const set = (element, later, out) => {
    element.classList.toggle('later', later);
    element.classList.toggle('out', out);
  };

  return () => {
    const at = state.at ?? last;
    for (const element of all('[data-c]', ep)) {
      set(element, +element.dataset.c > at, !passes(element.dataset.c));
    }
    for (const link of all('[data-from]', ep)) {
      const { from, to } = link.dataset;
      set(link, Math.max(from, to) > at, !link.closest('.note') && !(passes(from) && passes(to)));
    }
    for (const row of all('.row', ep)) {
      row.classList.toggle('bare', state.on.size > 0 && !first('.note:not(.out)', row));
    }
    const seen = notes.filter(note => !note.matches('.later, .out')).length;
    const status = first('.status', ep);
    if (status) status.textContent = state.on.size ? `${seen} of ${last} notes shown` : '';
    draw();
    light(at && at < last ? String(at) : null);
  };
}

// -- The slider
function replay(ep, state, show, signal) {
  const input = first('.slider input', ep);
  if (!input) return;
  const button = first('.slider button', ep);
  const output = first('.slider output', ep);
  const last = +input.max;
  let timer = null;

  const inWords = at => {
    if (at === last) return 'all notes';
    const note = first(`.note[data-c="${at}"]`, ep);
    if (!note) return 'an empty Board';
    const who = first('.who', note).textContent.slice(0, 24);
    return `${at} of ${last}: ${who}, ${first('.step', note).textContent}`;
  };
  const go = at => {
    state.at = at >= last ? null : at;
    input.value = at;
    output.textContent = inWords(at);
    input.setAttribute('aria-valuetext', inWords(at));
    show();
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = '▶';
    button.setAttribute('aria-label', 'Play');
  };
  const play = () => {
    if (+input.value >= last) go(0);
    button.textContent = '❚❚';
    button.setAttribute('aria-label', 'Pause');
    timer = setInterval(() => {
      go(+input.value + 1);
      if (+input.value >= last) stop();
    }, 900);
  };

  input.addEventListener('input', () => {
    stop();
    go(+input.value);
  });
  button.addEventListener('click', event => {
    event.preventDefault(); // the button stands in the slider's label
    if (timer) stop();
    else play();
  });
  signal.addEventListener('abort', () => clearInterval(timer));
  if (state.at !== null) go(Math.min(state.at, last));
}

// -- The filters
function filters(ep, state, show) {
  const buttons = all('[data-f]', ep);
  const press = () => {
    for (const button of buttons) {
      const filter = button.dataset.f;
      if (filter) button.setAttribute('aria-pressed', state.on.has(filter));
      else button.hidden = !state.on.size;
    }
  };
  const clear = () => {
    state.on.clear();
    // The button that clears is about to hide, and the focus has to stay somewhere.
    buttons.find(button => button.dataset.f)?.focus();
  };

  // A new section may lack a filter that its predecessor had.
  state.on = new Set(buttons.map(button => button.dataset.f).filter(filter => state.on.has(filter)));
  for (const button of buttons) {
    button.addEventListener('click', () => {
      const filter = button.dataset.f;
      if (!filter) clear();
      else if (!state.on.delete(filter)) state.on.add(filter);
      press();
      show();
    });
  }
  press();
}

// -- Arcs beside the notes
// The arc between the two notes of a link; nothing where one of them is not shown.
function arc(svg, link) {
  const { from, to } = link.dataset;
  const [a, b] = [from, to].map(number => first(`.note[data-c="${number}"]`, svg.parentElement));
  if (!a?.offsetParent || !b?.offsetParent) return [];
  const x = a.offsetLeft;
  const [y0, y1] = [a, b].map(note => note.offsetTop + 18);
  const bend = x - Math.min(x - 3, 7 + Math.abs(y0 - y1) / 22);
  const now = ['later', 'lit'].filter(name => link.classList.contains(name));
  const classes = ['tie', link.dataset.kind, ...now].join(' ');
  const group = svgElement('g', { class: classes, 'data-from': from, 'data-to': to });
  group.append(
    svgElement('path', { d: `M${x} ${y0}C${bend} ${y0} ${bend} ${y1} ${x} ${y1}` }),
    svgElement('circle', { cx: x - 1, cy: y1, r: 3 }),
  );
  return [group];
}

function arcs(ep, signal) {
  const arcsOf = svg =>
    all('.note:not(.out) a[data-kind]', svg.parentElement).flatMap(link => arc(svg, link));
  const draw = () => {
    if (!ep.matches('.on')) return;
    // All is measured before anything is drawn: the browser lays the page out once.
    const found = all('.arcs', ep).map(svg => [svg, arcsOf(svg)]);
    for (const [svg, groups] of found) svg.replaceChildren(...groups);
  };
  const moved = new ResizeObserver(draw);
  for (const list of all('.tied ol', ep)) moved.observe(list);
  signal.addEventListener('abort', () => moved.disconnect());
  return draw;
}

// -- A page in full size
function zoom(ep, signal) {
  const box = first('.zoom', ep);
  if (!box) return;
  const [title, stage, output] = ['h3', '.stage', 'output'].map(selector => first(selector, box));
  let scale = 1;

  const size = wanted => {
    const svg = stage.firstElementChild;
    scale = Math.min(6, Math.max(0.5, wanted));
    if (!svg) return;
    svg.style.width = `${100 * scale}%`;
    output.textContent = `${Math.round(100 * scale)}%`;
  };
  const by = {
    out: () => size(scale / 1.25),
    in: () => size(scale * 1.25),
    fit: () => size(1),
    close: () => box.close(),
  };
  const keys = { '+': by.in, '=': by.in, '-': by.out, 0: by.fit };

  // The large picture waits in a template: it is decoded only when it is looked at.
  const open = (page, shown) => {
    const svg = shown.cloneNode(true);
    const small = first('use', svg);
    const large = document.getElementById(`full${page}`)?.content.querySelector('image');
    if (large && small) small.replaceWith(document.importNode(large, true));
    title.textContent = `Page ${page}`;
    stage.replaceChildren(svg);
    size(1);
    box.showModal();
    stage.focus();
  };

  const enlarge = event => {
    const button = event.target.closest('.enlarge');
    if (button) open(button.dataset.page, first('svg', button.parentElement));
  };
  const press = event => {
    const button = event.target.closest('[data-zoom]');
    if (button) by[button.dataset.zoom]();
  };
  const type = event => {
    if (!keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  };
  ep.addEventListener('click', enlarge, { signal });
  box.addEventListener('click', press, { signal });
  box.addEventListener('keydown', type, { signal });
  box.addEventListener('close', () => stage.replaceChildren(), { signal });
}

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
export function parsed(html) {
  const box = document.createElement('template');
  box.innerHTML = html;
  return box.content.querySelector('.ep');
}

// Put something new into a section, or in its place (`change` says which section there is then): what the reader
// has opened, chosen and focused stays, and notes that were not there glow.
export function renew(old, change) {
  const known = new Set(all('.note', old).map(note => note.dataset.c));
  const folds = all('details[data-o]', old).filter(fold => fold.open);
  const open = folds.map(fold => fold.dataset.o);
  const focus = focusedIn(old);
  const [left, top] = [scrollX, scrollY];
  const ep = change();
  setup(ep, old.state);
  for (const fold of all('details[data-o]', ep)) fold.open ||= open.includes(fold.dataset.o);
  for (const note of all('.note', ep)) note.classList.toggle('fresh', !known.has(note.dataset.c));
  if (focus) first(focus, ep)?.focus({ preventScroll: true });
  scrollTo({ left, top, behavior: 'instant' });
}
