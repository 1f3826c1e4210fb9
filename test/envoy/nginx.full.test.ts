/**
 * A plain HTTP API behind a real nginx on the configuration that we ship. contract, "What the service does"
 * and "Errors".
 */
import { nginx, nginxOf } from '../support/nginx.ts'
import { plainApiStory } from '../support/plain-api-story.ts'
import { describeWith } from '../support/requirement.ts'

describeWith(await nginx(), 'a plain HTTP API behind nginx', path => {
  plainApiStory(nginxOf(path), 'dropped')
})
