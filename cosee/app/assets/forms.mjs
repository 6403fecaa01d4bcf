// The fields in which one chooses how a question is answered.
import { all, first, h } from '../../view/assets/elements.mjs';
import { asksTeam, ownSettingsInWords, settingsInWords, settingsOf } from './logic.mjs';

// -- Fields
const field = (label, control, more = '') =>
  h('label', { class: `field ${more}` }, h('span', {}, label), control);

function choice(name, values, chosen, words = {}) {
  const option = value => h('option', { value, selected: value === chosen }, words[value] ?? value);
  return h('select', { name }, values.map(option));
}

const number = (name, value, min, max, placeholder) =>
  h('input', { name, type: 'number', min, max, step: 1, value, placeholder, inputmode: 'numeric' });

const check = (name, value, text, checked) =>
  h('label', { class: 'check' }, h('input', { type: 'checkbox', name, value, checked }), ` ${text}`);

const words = {
  focus: { auto: 'as needed', all: 'all pages', top: 'the best pages', overview: 'an overview first' },
  order: { sequential: 'one after the other', parallel: 'all at once', blind: 'first answers unheard' },
};
const named = text => text.replaceAll('_', ' ');

// -- A form of settings
export function settingsForm(element, start, said) {
  const usual = { ...start.settings, client: start.models[0].name };
  const models = Object.fromEntries(
    start.models.map(({ name, about }) => [name, about ? `${name} – ${about}` : name]),
  );
  const methods = Object.fromEntries(start.methods.map(({ name, about }) => [name, about || named(name)]));
  const team = h(
    'fieldset',
    { class: 'team' },
    h('legend', {}, 'Team'),
    start.roles.map(role => check('agents', role, named(role), usual.agents.includes(role))),
    check('tools', 'tools', 'may look closer', usual.tools),
  );
  const ofTeam = [
    team,
    field('Order', choice('order', ['sequential', 'parallel', 'blind'], usual.order, words.order)),
    field('Rounds at most', number('max_steps', usual.max_steps, 1, 12)),
    field('Pages they see', choice('focus', ['auto', 'all', 'top', 'overview'], usual.focus, words.focus)),
    field('Pages searched for', number('k', usual.k, 1, 50)),
  ];
  const own = h('input', { name: 'set', placeholder: 'such as num_samples=5', autocomplete: 'off' });
  element.replaceChildren(
    field('Model', choice('client', Object.keys(models), usual.client, models), 'whole-row'),
    field('Method', choice('method', Object.keys(methods), usual.method, methods), 'whole-row'),
    ...ofTeam,
    field('Tokens at most', number('max_tokens', '', 1, 1e8, 'no limit')),
    field('Settings of the method', own, 'whole-row'),
  );

  const valueIn = name => first(`[name="${name}"]`, element).value;
  const read = () => {
    const checked = name => all(`[name="${name}"]:checked`, element).map(box => box.value);
    const names = ['client', 'method', 'order', 'focus', 'k', 'max_steps', 'max_tokens', 'set'];
    const fields = Object.fromEntries(names.map(name => [name, valueIn(name)]));
    fields.agents = checked('agents');
    fields.tools = checked('tools').length > 0;
    return settingsOf(fields, usual);
  };
  const show = () => {
    for (const part of ofTeam) part.hidden = !asksTeam(valueIn('method'));
    said.textContent = settingsInWords(read(), usual);
  };
  const write = settings => {
    const chosen = { ...usual, ...settings };
    if (!methods[chosen.method]) {
      methods[chosen.method] = named(chosen.method); // of an episode that a program asked for
      first('[name="method"]', element).append(h('option', { value: chosen.method }, named(chosen.method)));
    }
    for (const name of ['client', 'method', 'order', 'focus', 'k', 'max_steps']) {
      first(`[name="${name}"]`, element).value = chosen[name] || usual[name];
    }
    first('[name="max_tokens"]', element).value = chosen.max_tokens ?? '';
    own.value = ownSettingsInWords(chosen.set);
    for (const box of all('[name="agents"]', element)) box.checked = chosen.agents.includes(box.value);
    first('[name="tools"]', element).checked = chosen.tools;
    show();
  };
  element.addEventListener('change', show);
  element.addEventListener('input', show);
  show();
  return {
    read,
    write,
    inWords: settings => settingsInWords({ ...settings, client: settings.client || usual.client }, usual),
  };
}
