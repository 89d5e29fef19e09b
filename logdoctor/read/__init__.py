"""From bytes to facts: inputs, blocks, candidate lines, messages, facts."""
