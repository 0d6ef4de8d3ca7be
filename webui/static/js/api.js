// SPDX-License-Identifier: Apache-2.0
// The REST API as functions. A refusal becomes an ApiError with the server's own words.

export class ApiError extends Error {
  constructor(status, error) {
    super(error.problem);
    this.status = status;
    this.field = error.field;
  }
}

async function answer(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    throw new ApiError(response.status, {
      problem: `the server answered ${response.status} without JSON`,
      field: null,
    });
  }
  if (!response.ok) throw new ApiError(response.status, body.error);
  return body;
}

export async function get(path, query = {}) {
  const url = new URL(`/api/v1/${path}`, location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return answer(await fetch(url));
}

export async function putPolicy(document, token) {
  const response = await fetch("/api/v1/policy?wait_s=5", {
    method: "PUT",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    body: JSON.stringify(document),
  });
  return answer(response);
}
