// SPDX-License-Identifier: Apache-2.0
// Before the first paint: a stored choice of theme, so that the page does not flash in the other one.
document.documentElement.dataset.theme = localStorage.getItem("sluice-theme") || "auto";
