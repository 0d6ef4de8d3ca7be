// SPDX-License-Identifier: Apache-2.0
// Quantities for people. Decimal prefixes, as in the API.

function scaled(value, steps) {
  for (const [scale, unit] of steps)
    if (Math.abs(value) >= scale) return { text: digits(value / scale), unit };
  const [scale, unit] = steps[steps.length - 1];
  return { text: digits(value / scale), unit };
}

export function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return value
    .toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2)
    .replace(/(\.\d*?)0+$/, "$1")
    .replace(/\.$/, "");
}

const TIME_US = [
  [1e6, "s"],
  [1e3, "ms"],
  [1, "µs"],
];
const BYTES = [
  [1e9, "GB"],
  [1e6, "MB"],
  [1e3, "KB"],
  [1, "B"],
];
const RATE = [
  [1e9, "Gb/s"],
  [1e6, "Mb/s"],
  [1e3, "kb/s"],
  [1, "b/s"],
];

export const timeParts = (us) => scaled(us, TIME_US);
const joined = (parts) => `${parts.text} ${parts.unit}`;
export const time = (us) => joined(scaled(us, TIME_US));
export const bytes = (count) => joined(scaled(count, BYTES));
export const rate = (bps) => joined(scaled(bps, RATE));
export const percent = (share) => `${digits(share * 100)} %`;

export function clock(epochS) {
  return new Date(epochS * 1000).toLocaleTimeString("en-GB", { hour12: false });
}

export function age(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}
