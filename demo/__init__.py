"""A tour of Chipwarden on one machine, for somebody who has just cloned it; nothing of the product imports it."""
