/**
 * The story of an organization above alice, through a real Envoy and on real Postgres: contract,
 * "Organization membership, on the member's authorization server", "The organization's authority".
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startIdentityProvider, type IdentityProvider } from '../../src/dev/stack/identity-provider.ts'
import { openOrganizationScene } from '../../src/dev/story/organization-scene.ts'
import { ORGANIZATION_STORY } from '../../src/dev/story/organization-story.ts'
import type { Scene } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { envoy } from '../support/envoy.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { describeWith } from '../support/requirement.ts'
import { startStack } from '../support/stack.ts'

describeWith(await envoy(), 'the story of an organization, through Envoy', found => {
  let database: Awaited<ReturnType<typeof emptyDatabase>>
  let identityProvider: IdentityProvider
  let stack: Stack | undefined
  let scene: Scene

  beforeAll(async () => {
    database = await emptyDatabase()
    identityProvider = await startIdentityProvider()
    const organization = { databaseUrl: database.url, identityProvider }
    stack = await startStack({ envoy: found, organization })
    scene = await openOrganizationScene(stack)
  })
  afterAll(async () => {
    await scene?.close()
    await stack?.stop()
    await identityProvider?.stop()
    await database?.close()
  })

  // One after the other: each step goes on from the one before.
  for (const step of ORGANIZATION_STORY)
    test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))
})
