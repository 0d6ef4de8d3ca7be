// SPDX-License-Identifier: Apache-2.0
module sluice.internal/sluice

go 1.19
