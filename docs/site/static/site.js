// SPDX-License-Identifier: Apache-2.0
// Makes what the theme leaves to a pointer reachable by keyboard: the two drawers, and boxes that scroll in themselves.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  for (const [name, label] of [["__navigation", "Pages"], ["__toc", "On this page"]]) {
    drawer(document.getElementById(name), label);
  }
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  centre(document.querySelector(".sidebar-scroll"), document.querySelector(".sidebar-tree .current-page"));
  // The theme sends this for the heading that a reader has come to.
  document.addEventListener("gumshoeActivate", (event) => centre(document.querySelector(".toc-scroll"), event.target));
  for (const caption of document.querySelectorAll(".sidebar-tree .caption")) {
    caption.setAttribute("aria-level", "2");
  }
  for (const word of document.querySelectorAll("code .pre")) {
    word.classList.toggle("short", word.textContent.length <= 28);
  }
  for (const box of document.querySelectorAll("article pre, article .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", box.matches("pre") ? "Code" : "Table");
    }
  }
});

// Scroll `box` until `item` in it can be seen.
function centre(box, item) {
  if (!box || !item) return;
  const top = item.getBoundingClientRect().top - box.getBoundingClientRect().top;
  if (top < 0 || top > box.clientHeight - 40) box.scrollTop += top - box.clientHeight / 2;
}

// `box` is the hidden checkbox by which the theme opens a drawer.
function drawer(box, name) {
  if (!box) return;
  const buttons = [...document.querySelectorAll(`label[for="${box.id}"]:not(.overlay)`)];
  const say = () => buttons.forEach((each) => each.setAttribute("aria-expanded", String(box.checked)));
  const open = (isOpen) => { box.checked = isOpen; say(); };
  const inside = document.querySelector(box.id === "__toc" ? ".toc-drawer a" : ".sidebar-search");
  for (const button of buttons) {
    button.tabIndex = 0;
    button.setAttribute("role", "button");
    button.setAttribute("aria-label", name);
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      open(!box.checked);
      if (box.checked) inside?.focus();
    });
  }
  box.addEventListener("change", say);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.checked) return;
    open(false);
    buttons.find((each) => each.checkVisibility())?.focus();
  });
  say();
}
