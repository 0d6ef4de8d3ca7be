// SPDX-License-Identifier: Apache-2.0
// Sets the stored theme before the first paint. Otherwise the page would flash in the system's theme.
document.documentElement.dataset.theme = localStorage.getItem("sluice-theme") || "auto";
