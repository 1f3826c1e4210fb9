/**
 * An HTTP API behind a real Traefik on the configuration that we ship. contract, "What the service does" and
 * "Errors".
 */
import { plainApiStory } from '../support/plain-api-story.ts'
import { describeWith } from '../support/requirement.ts'
import { traefik, traefikOf } from '../support/traefik.ts'

describeWith(await traefik(), 'an HTTP API behind Traefik', path => {
  plainApiStory(traefikOf(path), 'shown')
})
