// What the page asks of its server. Whatever goes wrong comes back as an Error with one line to show.

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
export const server = {
  start: () => get('api/start'),
  open: (path, password) => post('api/documents', JSON.stringify({ path, password: password || null })),
  document: id => get(`api/documents/${encodeURIComponent(id)}`),
  remove: async id => told(await fetched(`api/documents/${encodeURIComponent(id)}`, { method: 'DELETE' })),
  ask: question => post('api/questions', JSON.stringify(question)),
  episodes: (q, document = '') => get(`api/episodes?${new URLSearchParams({ q, document })}`),
  episode: id => get(one(id)),
  section: async (id, prefix) => (await told(await fetched(`${one(id)}/section?prefix=${prefix}`))).text(),
  stop: id => post(`${one(id)}/stop`, ''),
  mark: (id, right) => post(`${one(id)}/mark`, JSON.stringify({ right })),
  notes: (id, notes) => post(`${one(id)}/notes`, JSON.stringify({ notes })),
  upload(file, password) {
    const said = new URLSearchParams(password ? { name: file.name, password } : { name: file.name });
    return post(`api/uploads?${said}`, file, { 'Content-Type': 'application/octet-stream' });
  },
};

export const pictureOf = (document, page, side) =>
  `api/documents/${document}/pages/${page}.webp?side=${side}`;
export const fileOf = (id, form) => `${one(id)}/export.${form}`;

// -- Events
// Follow an episode; `hear` gets every event, from the first. Gives what ends the following.
export function followed(id, hear) {
  const source = new EventSource(`${one(id)}/events`);
  source.onmessage = message => {
    const event = JSON.parse(message.data);
    if (event.kind === 'ended') source.close();
    hear(event);
  };
  return () => source.close();
}
