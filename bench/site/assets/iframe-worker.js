// A page that is opened from file:// may start no worker: the script of the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  const message = data => new MessageEvent("message", { data });
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise(resolve => frame.addEventListener("load", () => {
        const inside = frame.contentWindow, script = inside.document.createElement("script");
        inside.postMessage = data => this.dispatchEvent(message(data));
        script.src = url;
        script.onload = () => resolve(inside);
        inside.document.body.append(script);
      }, { once: true }));
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then(inside => inside.dispatchEvent(message(data)));
    }
  };
}
