/**
 * Owns what steps about an account held jointly share: who holds it, what each offers, and what waits for
 * each. Contract: "Tally for a jointly held resource".
 */
import { createOwnerClient, readAll, type OwnerClient, type PendingItem } from '../../owner/index.ts'
import type { JsonObject } from '../../wire/json.ts'
import { until } from '../stack/child-process.ts'
import { object } from './held-grants.ts'
import { ACCOUNT, type JointPlace } from '../stack/joint-place.ts'
import { openScene, present, type Scene } from './scene.ts'
import type { Stack } from '../stack/stack.ts'

export const HOLDING = '/owner/joint'
export type HolderName = keyof JointPlace['holders']
export const HOLDERS: readonly HolderName[] = ['alice', 'bob', 'carol']

/** What each offers over it; only carol would let an agent close the account. */
const OFFERS: Record<HolderName, { reading: object; trading: object; asksOfTrades: boolean }> = {
  alice: {
    reading: { scope: ['read'], expires_in: 3_600, prohibited: ['training models on it'] },
    trading: { scope: ['trade'], expires_in: 600, prohibited: [] },
    asksOfTrades: false,
  },
  bob: {
    reading: { scope: ['read'], expires_in: 900, prohibited: ['passing it on'] },
    trading: { scope: ['trade'], expires_in: 300, prohibited: [] },
    asksOfTrades: true,
  },
  carol: {
    reading: { scope: ['read', 'close'], expires_in: 1_800, prohibited: [] },
    trading: { scope: ['trade'], expires_in: 600, prohibited: [] },
    asksOfTrades: false,
  },
}

/** Sets the scene: agents in it call what is held jointly, and `owner` is alice. */
export function openJointScene(stack: Stack): Promise<Scene> {
  return openScene({ ...stack, resource: jointOf({ stack }).resource })
}

/** What is held jointly in the stack. */
export function jointOf({ stack }: Pick<Scene, 'stack'>): JointPlace {
  return present('Something is held jointly.', stack.joint)
}

/** A client that acts as one of the holders, at her own authority. */
export function asHolder(scene: Scene, name: HolderName): OwnerClient {
  return createOwnerClient(jointOf(scene).holders[name])
}

/** What the mandate would commit her to. */
export async function mandateFor(scene: Scene, name: HolderName): Promise<JsonObject> {
  const body = { tally: jointOf(scene).tally, account: ACCOUNT }
  return object(await asHolder(scene, name).ask({ method: 'POST', path: `${HOLDING}/preview`, body }))
}

/** She agrees to exactly the mandate that she reads, and offers her terms. */
export async function agreeAndOffer(scene: Scene, name: HolderName): Promise<JsonObject> {
  const owner = asHolder(scene, name)
  const { mandate_s256 = null } = await mandateFor(scene, name)
  const body = { tally: jointOf(scene).tally, account: ACCOUNT, agreed: true, mandate_s256 }
  const agreed = object(await owner.ask({ method: 'POST', path: HOLDING, body }))
  const { reading, trading, asksOfTrades } = OFFERS[name]
  const tiers = [
    { id: 'our-reading', name: 'Ours: reading', resources: [`${ACCOUNT}/account`], terms: reading },
    {
      id: 'our-trading',
      name: 'Ours: trading',
      resources: [`${ACCOUNT}/trades`],
      ask_me: asksOfTrades,
      terms: trading,
    },
  ]
  for (const { terms, ...tier } of tiers) {
    const written = { ...tier, terms: { purpose: 'Keep the household going', ...terms } }
    await owner.ask({ method: 'POST', path: '/owner/policies', body: written })
  }
  return agreed
}

/** The item that waits for her, as soon as there is one. */
export function waitingFor(scene: Scene, name: HolderName): Promise<PendingItem> {
  return until(`something to wait for ${name}`, async () => {
    const [item] = await readAll(asHolder(scene, name).pending())
    return item
  })
}

/** Waits until nothing waits for her any more. */
export async function nothingWaitsFor(scene: Scene, name: HolderName): Promise<void> {
  await until(`nothing to wait for ${name}`, async () => {
    const items = await readAll(asHolder(scene, name).pending())
    return items.length === 0
  })
}
