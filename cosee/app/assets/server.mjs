// What the page asks of its server. Whatever goes wrong comes back as an Error with one line to show.
import { parsed } from '../../view/assets/section.mjs';
import { showError } from './errors.mjs';

// -- Requests
async function told(response) {
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  throw new Error(said?.error?.message ?? `The server says ${response.status}.`);
}

async function fetched(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Error('The server does not answer. Does `cosee app` still run?');
  }
}

const get = async path => (await told(await fetched(path))).json();

async function post(path, body, headers = { 'Content-Type': 'application/json' }) {
  return (await told(await fetched(path, { method: 'POST', headers, body }))).json();
}

const one = id => `api/episodes/${encodeURIComponent(id)}`;

// -- What there is
const of = id => `api/documents/${encodeURIComponent(id)}`;

export const server = {
  start: () => get('api/start'),
  open: (path, password) => post('api/documents', JSON.stringify({ path, password: password || null })),
  document: id => get(`${of(id)}/sizes`),
  remove: async id => told(await fetched(of(id), { method: 'DELETE' })),
  ask: (document, question) => post(`${of(document)}/questions`, JSON.stringify(question)),
  episodes: (search, document = '') =>
    get(`api/episodes?${new URLSearchParams({ search, document, most: '500' })}`),
  episode: id => get(one(id)),
  section: async (id, prefix) => (await told(await fetched(`${one(id)}/section?prefix=${prefix}`))).text(),
  stop: id => post(`${one(id)}/stop`, ''),
  mark: (id, right) => post(`${one(id)}/mark`, JSON.stringify({ right })),
  notes: (id, notes) => post(`${one(id)}/notes`, JSON.stringify({ notes })),
  upload(file, password) {
    const headers = { 'Content-Type': 'application/octet-stream' };
    if (password) headers['X-Document-Password'] = password;
    return post(
      `api/documents/upload?${new URLSearchParams({ name: file.name.slice(-300) })}`,
      file,
      headers,
    );
  },
};

export const pictureOf = (document, page, side) => `${of(document)}/pages/${page}?side=${side}`;
export const fileOf = (id, form) => `${one(id)}/export.${form}`;

// -- Events
const KINDS = ['waiting', 'begun', 'reading', 'start', 'text', 'turn', 'step', 'answer', 'ended'];

// Follow an episode; `hear` gets every event, from the first. Gives what ends the following.
export function followed(id, hear) {
  const source = new EventSource(`${one(id)}/events`);
  const take = message => {
    const event = JSON.parse(message.data);
    if (event.kind === 'ended') source.close();
    hear(event);
  };
  for (const kind of KINDS) source.addEventListener(kind, take);
  return () => source.close();
}

// The section of an episode, taken anew: one request at a time; what happens meanwhile asks for one more. Who asks
// waits until the latest is shown.
export function refresher(id, prefix, take) {
  let asking = null;
  let isStale = false;
  const work = async () => {
    try {
      do {
        isStale = false;
        const section = parsed(await server.section(id, prefix));
        if (section) take(section);
      } while (isStale);
    } catch (error) {
      showError(error.message);
    }
    asking = null;
  };
  return () => {
    isStale = asking !== null;
    asking ??= work();
    return asking;
  };
}
