/**
 * A plain HTTP API behind a real Caddy on the configuration that we ship. contract, "What the service does"
 * and "Errors".
 */
import { caddy, caddyOf } from '../support/caddy.ts'
import { plainApiStory } from '../support/plain-api-story.ts'
import { describeWith } from '../support/requirement.ts'

describeWith(await caddy(), 'a plain HTTP API behind Caddy', path => {
  plainApiStory(caddyOf(path), 'refused')
})
