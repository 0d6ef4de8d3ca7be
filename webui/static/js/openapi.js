// SPDX-License-Identifier: Apache-2.0
// Starts Swagger UI, which a classic script has put into the global scope. Swagger's validator
// would be a foreign server, so it is off.
const place = document.getElementById("api");
globalThis.SwaggerUIBundle({
  url: place.dataset.document,
  domNode: place,
  validatorUrl: null,
  deepLinking: true,
});
