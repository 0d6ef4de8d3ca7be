# SPDX-License-Identifier: Apache-2.0
"""Alerts: findings of the rules, the state that follows, and the webhook.

One web worker watches (duty.py). It writes states, events and messages into the store, and all workers show them.
"""
