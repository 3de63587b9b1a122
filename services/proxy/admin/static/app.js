// What every page does in the browser: ages that stay true, and Ctrl+Enter in the console.
"use strict";
(() => {
  const lang = document.documentElement.lang;
  const words = {
    en: { d: (n) => `${n} d ago`, h: (n) => `${n} h ago`, min: (n) => `${n} min ago`, s: (n) => `${n} s ago` },
    zh: { d: (n) => `${n} 天前`, h: (n) => `${n} 小时前`, min: (n) => `${n} 分钟前`, s: (n) => `${n} 秒前` },
  }[lang];
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

  function ago(stamp) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(stamp)) / 1000));
    const [size, unit] = steps.find(([size]) => seconds >= size) || [1, "s"];
    return words[unit](Math.floor(seconds / size));
  }

  function tick() {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const text = time.dateTime && ago(time.dateTime);
      if (text && time.textContent !== text) time.textContent = text;
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("[data-submit]")) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  });
  setInterval(tick, 5000);
  window.metalanchor = { ago };
})();
