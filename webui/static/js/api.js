// SPDX-License-Identifier: Apache-2.0
// The REST API as functions. A refused request throws ApiError with the server's own words.

/** @import { ChangedPolicyModel, ErrorDetail, PolicyPreview } from "./documents.gen.js" */
/** @import { PolicyVersionModel } from "./documents.gen.js" */

const APPLY_WAIT_S = 5;
/** How long the page waits for an answer that it shows. */
const PATIENCE_MS = 30_000;

export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {Pick<ErrorDetail, "problem" | "field"> & { code?: string }} error
   */
  constructor(status, error) {
    super(error.problem);
    this.status = status;
    this.field = error.field;
    this.code = error.code ?? "";
  }
}

/**
 * The document of a response; which type it has, the caller knows from the path.
 * @param {Response} response
 * @returns {Promise<any>}
 */
async function answer(response) {
  const body = await response.json().catch(() => {
    throw new ApiError(response.status, {
      problem: `the server answered ${response.status} without JSON`,
      field: null,
    });
  });
  if (!response.ok) throw new ApiError(response.status, body.error);
  return body;
}

/**
 * @param {string} path
 * @param {Record<string, string | number>} query
 */
export async function get(path, query = {}) {
  const url = new URL(`/api/v1/${path}`, location.origin);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
  return answer(await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) }));
}

/**
 * The role of a token, or null if it is not in force.
 * @param {string} token
 * @returns {Promise<string | null>}
 */
export async function roleOf(token) {
  const response = await fetch("/api/v1/access", { headers: { Authorization: `Bearer ${token}` } });
  return (await answer(response)).role;
}

/**
 * What a policy document would change. Nothing changes.
 * @param {Record<string, unknown>} document
 * @returns {Promise<PolicyPreview>}
 */
export async function previewPolicy(document) {
  const response = await fetch("/api/v1/policy/preview", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(document),
  });
  return answer(response);
}

/**
 * Stores the policy and waits some seconds for the controller to apply it.
 * @param {Record<string, unknown>} document
 * @param {string} token
 * @returns {Promise<ChangedPolicyModel>}
 */
export async function putPolicy(document, token) {
  return answer(await fetch(`/api/v1/policy?wait_s=${APPLY_WAIT_S}`, request("PUT", token, document)));
}

/**
 * The answer to a document that needs a token.
 * @param {string} path
 * @param {unknown} document
 * @param {string} token
 */
export async function post(path, document, token) {
  return answer(await fetch(`/api/v1/${path}`, request("POST", token, document)));
}

/**
 * Fixes or freezes the thresholds of one port.
 * @param {string} port
 * @param {string} token
 * @param {Record<string, unknown>} [rule] `thresholds`, or `freeze: true`.
 * @returns {Promise<PolicyVersionModel>}
 */
export const putOverride = (port, token, rule) => override("PUT", port, token, rule);

/**
 * Removes the override that names this port.
 * @param {string} port
 * @param {string} token
 * @returns {Promise<PolicyVersionModel>}
 */
export const deleteOverride = (port, token) => override("DELETE", port, token);

/**
 * @param {string} method
 * @param {string} port
 * @param {string} token
 * @param {Record<string, unknown>} [rule]
 */
async function override(method, port, token, rule) {
  const path = `/api/v1/ports/${encodeURIComponent(port)}/override?wait_s=${APPLY_WAIT_S}`;
  return answer(await fetch(path, request(method, token, rule)));
}

/**
 * @param {string} method
 * @param {string} token
 * @param {unknown} [document]
 * @returns {RequestInit}
 */
function request(method, token, document) {
  const headers = { Authorization: `Bearer ${token}` };
  if (!document) return { method, headers };
  return {
    method,
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify(document),
  };
}
