// SPDX-License-Identifier: Apache-2.0
// Starts Swagger UI, which a classic script has put into the global scope. Swagger's validator
// would be a foreign server, so it is off.

/**
 * @typedef {{url?: string, domNode: HTMLElement, validatorUrl: null, deepLinking: boolean}} Options
 * @typedef {{SwaggerUIBundle: (options: Options) => void}} Swagger
 */

const { SwaggerUIBundle } = /** @type {Swagger} */ (/** @type {unknown} */ (globalThis));
const place = /** @type {HTMLElement} */ (document.getElementById("api"));
SwaggerUIBundle({
  url: place.dataset.document,
  domNode: place,
  validatorUrl: null,
  deepLinking: true,
});

// Swagger UI has dark colours, but it does not ask for the reader's preference.
const dark = matchMedia("(prefers-color-scheme: dark)");
const adopt = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", adopt);
adopt();
