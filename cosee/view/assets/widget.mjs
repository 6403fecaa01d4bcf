// The front end of the widget: a frame without any rights but to run its own script. The frame says when it is
// ready, and gets every new section as a message.
// -- A frame
function render({ model, el }) {
  const frame = document.createElement('iframe');
  let ready = false;
  const send = () => {
    if (ready) frame.contentWindow.postMessage({ section: model.get('section') }, '*');
  };
  const size = () => {
    frame.style.height = `${model.get('height')}px`;
  };
  const open = () => {
    ready = false;
    frame.srcdoc = model.get('page');
  };
  const hear = event => {
    if (event.source !== frame.contentWindow || event.data?.cosee !== 'ready') return;
    ready = true;
    send();
  };

  frame.setAttribute('sandbox', 'allow-scripts');
  frame.title = 'An episode';
  frame.style.cssText = 'width: 100%; border: 0; border-radius: 8px';
  size();
  addEventListener('message', hear);
  const changes = { 'change:section': send, 'change:page': open, 'change:height': size };
  for (const [kind, take] of Object.entries(changes)) model.on(kind, take);
  el.append(frame);
  open();
  return () => {
    removeEventListener('message', hear);
    for (const [kind, take] of Object.entries(changes)) model.off(kind, take);
  };
}

export default { render };
