"use strict";
// Of every page: marks in the navigation which part is read.
{
  const LINE = 140; // pixels from the top: the part that has come above it is read
  const links = [...document.querySelectorAll("nav a")];
  const parts = links.map((link) => document.getElementById(link.hash.slice(1)));
  const bar = document.querySelector("nav");

  function mark() {
    const isEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const last = parts.findLastIndex((part) => part.getBoundingClientRect().top <= LINE);
    const now = scrollY <= 0 ? 0 : isEnd ? links.length - 1 : Math.max(0, last);
    links.forEach((link, at) => {
      if (at === now) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
    const link = links[now];
    // Where the navigation is a bar that scrolls in itself, the current part stays in sight.
    if (link && bar.scrollWidth > bar.clientWidth) bar.scrollLeft = link.offsetLeft - (bar.clientWidth - link.offsetWidth) / 2;
  }

  addEventListener("scroll", mark, { passive: true });
  addEventListener("resize", mark);
  mark();
}
